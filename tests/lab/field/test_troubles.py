"""Troubles without a cluster: the arguments of a verb, and the parts that it touches."""

from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.lab.field.client import ClientError
from tests.lab.field.links import EVERY
from tests.lab.field.troubles import TroubleError, make_trouble


@pytest.fixture
def play() -> Any:
    made = MagicMock()
    made.clients = {"order-1": MagicMock()}
    made.link_name = "play.{}".format
    return made


def test_a_client_that_does_not_start_is_started_anew_once_unless_others_live_in_its_jvm(play: Any) -> None:
    client = play.clients["order-1"]
    client.spec.process = ""
    client.start.side_effect = [ClientError("no route"), None]
    make_trouble(play, "start", to="order-1")
    assert [name for name, _, _ in client.method_calls] == ["start", "process.kill", "start"]
    client.spec.process = "shared"
    client.start.side_effect = ClientError("no route")
    with pytest.raises(ClientError, match="no route"):
        make_trouble(play, "start", to="order-1")
    assert client.process.kill.call_count == 1


def test_links_are_those_of_the_play_and_every_one_is_every_one(play: Any) -> None:
    make_trouble(play, "cut", to="order-1", broker="broker-b")
    make_trouble(play, "delay", to=EVERY, broker="broker-a", ms=30)
    play.links.cut.assert_called_once_with("play.order-1", "broker-b")
    play.links.delay.assert_called_once_with(EVERY, "broker-a", 30)


@pytest.mark.parametrize(
    ("do", "arguments", "why"),
    [
        ("explode", {}, "trouble 'explode' is not one of blackhole, broker_freeze"),
        ("stop", {}, "trouble 'stop': missing a required argument: 'to'"),
        ("stop", {"to": "order-1", "seconds": 3}, "trouble 'stop': got an unexpected keyword argument 'seconds'"),
    ],
)
def test_an_unknown_verb_or_argument_is_named(play: Any, do: str, arguments: dict[str, object], why: str) -> None:
    with pytest.raises(TroubleError, match=why):
        make_trouble(play, do, **arguments)
