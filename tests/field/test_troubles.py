"""Troubles without a cluster: the arguments of a verb, the parts that it touches, and its log."""

import inspect
import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.field.client_process import ClientError
from tests.field.links import EVERY
from tests.field.troubles import LOG, VERBS, TroubleError, check_trouble, make_trouble


class FakeStage:
    """A stage whose parts are mocks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clients: Any = {"order-1": MagicMock()}
        self.cluster, self.links, self.collector = MagicMock(), MagicMock(), MagicMock()

    def link_name(self, client: str) -> str:
        return f"play.{client}"

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / LOG).read_text().splitlines()]


@pytest.fixture
def stage(tmp_path: Path) -> FakeStage:
    return FakeStage(tmp_path)


def test_each_thing_done_is_written_with_its_begin_its_end_and_its_arguments(stage: FakeStage) -> None:
    make_trouble(stage, "stop", to="order-1")
    make_trouble(stage, "topic", topic="orders", broker="broker-b", perm=4)
    stage.clients["order-1"].stop.assert_called_once_with()
    stage.cluster.alter_topic.assert_called_once_with(
        "orders", "broker-b", read_queue_nums=None, write_queue_nums=None, perm=4
    )
    first, second = stage.log()
    assert first.pop("t") <= first.pop("ended") <= second.pop("t") <= second.pop("ended")
    assert first == {"do": "stop", "to": "order-1"}
    assert second == {"do": "topic", "topic": "orders", "broker": "broker-b", "perm": 4}


def test_what_failed_is_written_and_raised(stage: FakeStage) -> None:
    stage.cluster.start_broker.side_effect = AssertionError("not within 120 s: broker-a is registered")
    with pytest.raises(AssertionError):
        make_trouble(stage, "broker_start", to="broker-a")
    (line,) = stage.log()
    assert line["failed"] == "AssertionError: not within 120 s: broker-a is registered"


def test_a_collector_may_come_back_under_another_name(stage: FakeStage) -> None:
    make_trouble(stage, "collector_restart")
    make_trouble(stage, "collector_restart", id="reserve")
    environments = [call.args[0] for call in stage.collector.restart.call_args_list]
    assert environments == [{}, {"BALANCEWATCH_COLLECTOR__ID": "reserve"}]


def test_a_client_that_does_not_start_is_started_anew_once_unless_others_live_in_its_jvm(stage: FakeStage) -> None:
    client = stage.clients["order-1"]
    client.spec.process = ""
    client.start.side_effect = [ClientError("no route"), None]
    make_trouble(stage, "start", to="order-1")
    assert [name for name, _, _ in client.method_calls] == ["start", "kill", "start"]
    client.spec.process = "shared"
    client.start.side_effect = ClientError("no route")
    with pytest.raises(ClientError, match="no route"):
        make_trouble(stage, "start", to="order-1")
    assert client.kill.call_count == 1


def test_links_are_those_of_the_play_and_every_one_is_every_one(stage: FakeStage) -> None:
    make_trouble(stage, "cut", to="order-1", broker="broker-b")
    make_trouble(stage, "delay", to=EVERY, broker="broker-a", ms=30)
    make_trouble(stage, "broker_delay", to="broker-a", ms=0)
    make_trouble(stage, "heal", to="order-1", broker=EVERY)
    stage.links.cut.assert_called_once_with("play.order-1", "broker-b")
    assert [call.args for call in stage.links.delay.call_args_list] == [
        (EVERY, "broker-a", 30),
        (EVERY, "broker-a", 0),
    ]
    stage.links.heal.assert_called_once_with("play.order-1", EVERY)


def test_slices_end_with_a_client_that_runs(stage: FakeStage) -> None:
    make_trouble(stage, "freeze_slices", to="order-1", seconds=0.05, stopped_ms=10, running_ms=10)
    done = [name for name, _, _ in stage.clients["order-1"].method_calls if name in ("freeze", "thaw")]
    assert done.count("freeze") >= 1
    assert done[-1] == "thaw"


@pytest.mark.parametrize(
    ("do", "arguments", "why"),
    [
        ("explode", {}, "trouble 'explode' is not one of blackhole, broker_delay"),
        ("stop", {}, "trouble 'stop': missing a required argument: 'to'"),
        ("stop", {"to": "order-1", "seconds": 3}, "trouble 'stop': got an unexpected keyword argument 'seconds'"),
    ],
)
def test_an_unknown_verb_or_argument_is_named(
    stage: FakeStage, do: str, arguments: dict[str, object], why: str
) -> None:
    with pytest.raises(TroubleError, match=why):
        check_trouble(do, arguments)
    with pytest.raises(TroubleError, match=why):
        make_trouble(stage, do, **arguments)
    assert not (stage.folder / LOG).exists()


def test_no_verb_takes_an_argument_that_the_log_has_another_use_for() -> None:
    names = {name for verb in VERBS.values() for name in inspect.signature(verb).parameters}
    assert not names & {"t", "ended", "do", "failed"}
