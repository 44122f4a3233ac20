"""What pulls show of the world a member works in, where nobody watched when that changed."""

import pytest

from tests.udfs.groups.facts import BOTH, A, B, Life
from udfs.groups.inference import STALE_ROUTE


def scaled_topic(mine: set[str]) -> Life:
    """12 queues on two brokers, from 8 before anybody watched: A has those of broker-a and B those of broker-b.

    A goes on with `mine`.
    """
    life = Life(brokers=BOTH, queues=6)
    life.start("h1:1", A, *mine, strategy="AVG")
    life.start("h2:1", B, *(f"broker-b:{number}" for number in range(6)), strategy="AVG")
    life.run(600)
    return life


def test_a_member_that_pulls_what_the_topic_once_gave_it_knows_the_old_route() -> None:
    """Three members once: of 4 queues on each broker the first has 0-2 of broker-a, and the second its last."""
    life = Life(brokers=BOTH, queues=6)
    shares = {
        A: ("broker-a:0", "broker-a:1", "broker-a:2", "broker-a:3"),
        B: ("broker-a:3", "broker-b:0", "broker-b:1"),
        "c@7": ("broker-b:2", "broker-b:3", "broker-b:4", "broker-b:5"),
    }
    for number, (client_id, mine) in enumerate(shares.items()):
        life.start(f"h{number}:1", client_id, *mine, strategy="AVG")
    life.run(600)
    starved = life.state.incidents["starved_queue orders"]
    assert (starved.cause, starved.client_id) == (STALE_ROUTE, B)
    assert starved.queues == ("broker-a:4", "broker-a:5")


@pytest.mark.parametrize(
    "mine",
    [
        {"broker-a:0", "broker-a:1", "broker-a:2", "broker-a:3"},  # of its own it has stopped to pull two
        {"broker-a:0", "broker-b:3"},  # by no number of queues
    ],
)
def test_what_fits_no_route_is_no_old_route(mine: set[str]) -> None:
    starved = scaled_topic(mine).state.incidents["starved_queue orders"]
    assert starved.cause != STALE_ROUTE
