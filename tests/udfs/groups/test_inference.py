"""What pulls show of the world a member works in, where nobody watched when that changed."""

import pytest

from tests.udfs.groups.facts import BOTH, Life, play
from udfs.groups.inference import STALE_ROUTE


@pytest.mark.parametrize(
    "mine",
    [
        "broker-a:0 broker-a:1 broker-a:2 broker-a:3",  # of its own it has stopped to pull two
        "broker-a:0 broker-b:3",  # by no number of queues
    ],
)
def test_what_fits_no_route_is_no_old_route(mine: str) -> None:
    """12 queues on two brokers, from 8 before the monitor started: A has those of broker-a and B those of broker-b."""
    life = Life(brokers=BOTH, queues=6)
    own = " ".join(f"broker-b:{number}" for number in range(6))
    play(life, f"start h1:1 A {mine} strategy=AVG; start h2:1 B {own} strategy=AVG; to 600")
    assert life.state.incidents["starved_queue orders"].cause != STALE_ROUTE
