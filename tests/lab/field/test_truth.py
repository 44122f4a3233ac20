"""The truth read from clients' logs: made by hand, a line a second, as the clients write them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.field.truth import Span, Truth, before, between, joined, read_truth, shared
from udfs.rocketmq.model import MessageQueue

START = 1_700_000_000_000
QUEUE = MessageQueue("orders", "broker-a", 0)


def at(second: float) -> int:
    return START + int(second * 1000)


class Logs:
    """Clients' logs in a folder; `read` gives their truth up to a second."""

    def __init__(self, folder: Path, topic: str = "orders") -> None:
        self.folder, self._topic = folder, topic

    def add(
        self,
        name: str,
        seconds: range,
        *,
        kind: str = "push",
        client_id: str = "",
        group: str = "g",
        tags: str = "*",
        **queue: Any,
    ) -> None:
        """Lines of one client that holds queue 0; a counter may be a function of the second."""
        with (self.folder / f"{name}.jsonl").open("a") as log:
            for second in seconds:
                held = {key: value(second) if callable(value) else value for key, value in queue.items()}
                place = {"topic": self._topic, "broker_name": "broker-a", "queue_id": 0}
                fields = {
                    "t": at(second),
                    "client": name,
                    "client_id": client_id or name,
                    "kind": kind,
                    "group": group,
                    "queues": [place | held] if held else [],
                    "subscriptions": {} if kind == "producer" else {self._topic: tags},
                }
                log.write(json.dumps(fields) + "\n")

    def add_producer(self, seconds: range) -> None:
        """Two messages a second."""
        self.add("producer", seconds, kind="producer", group="p", sent=lambda second: 1 + 2 * second)

    def add_consumer(self, name: str, seconds: range, **changes: Any) -> None:
        """It pulls and consumes all the time."""
        self.add(name, seconds, **{"consumed": lambda second: 1 + 2 * second, "last_pull": at, **changes})

    def read(self, seconds: int) -> Truth:
        return read_truth(self.folder, START, at(seconds))


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def test_a_queue_starves_from_the_first_message_after_the_last_that_was_consumed(logs: Logs) -> None:
    logs.add_producer(range(300))
    logs.add_consumer("one", range(100))
    logs.add_consumer("two", range(160, 300))
    assert logs.read(300).starved("g") == {QUEUE: [Span(at(101), at(160))]}


def test_a_queue_that_nobody_consumes_any_more_starves_without_an_end(logs: Logs) -> None:
    logs.add_producer(range(300))
    logs.add_consumer("one", range(300), consumed=lambda second: 1 + min(second, 99))
    assert logs.read(300).starved("g") == {QUEUE: [Span(at(101), None)]}


def test_a_queue_without_messages_and_a_hand_over_are_no_starvation(logs: Logs) -> None:
    logs.add_producer(range(120))
    logs.add_consumer("one", range(60))
    logs.add_consumer("two", range(75, 120))
    logs.add_consumer("two", range(120, 300), consumed=241)
    assert logs.read(300).starved("g") == {}


def test_a_message_that_its_consumer_tells_of_first_does_not_wait(logs: Logs) -> None:
    logs.add_consumer("one", range(100), consumed=lambda second: 1 + min(second, 50))
    logs.add("producer", range(100), kind="producer", group="p", sent=lambda second: min(second, 51))
    assert logs.read(100).starved("g") == {}


def test_a_client_that_starts_again_counts_from_nothing(logs: Logs) -> None:
    logs.add_producer(range(200))
    logs.add_consumer("one", range(100))
    logs.add_consumer("one", range(110, 200), consumed=lambda second: second - 109)
    assert logs.read(200).starved("g") == {}


def test_two_who_hold_and_pull_a_queue_side_by_side_double_it(logs: Logs) -> None:
    logs.add_consumer("one", range(200))
    logs.add_consumer("two", range(50, 120))
    logs.add_consumer("idle", range(200), last_pull=0)
    logs.add_consumer("unlocked", range(200), kind="push_orderly", locked=False)
    assert logs.read(200).doubled("g") == {QUEUE: [Span(at(50), at(120))]}


def test_twins_are_two_living_clients_of_one_client_id(logs: Logs) -> None:
    logs.add("one", range(200), client_id="same")
    logs.add("two", range(60, 150), client_id="same")
    logs.add("three", range(200))
    logs.add("before", range(100), client_id="handed on")
    logs.add("after", range(100, 200), client_id="handed on")
    assert logs.read(200).twins("g") == {"same": [Span(at(60), at(150))]}


def test_a_group_has_nobody_once_all_its_clients_are_silent(logs: Logs) -> None:
    logs.add("one", range(60))
    logs.add("two", range(80))
    logs.add("two", range(150, 200))
    logs.add("other", range(200), group="h")
    assert logs.read(200).nobody("g") == [Span(at(80), at(150))]


def test_members_that_subscribe_otherwise_differ_while_both_live(logs: Logs) -> None:
    """Tags in another order are one subscription."""
    logs.add("one", range(200), tags="paid || shipped")
    logs.add("two", range(200), tags="shipped||paid")
    logs.add("three", range(50, 90), tags="paid")
    assert logs.read(200).differing("g") == [Span(at(50), at(90))]


def test_a_last_line_that_was_cut_off_is_left_out(logs: Logs) -> None:
    logs.add("one", range(10))
    with (logs.folder / "one.jsonl").open("a") as log:
        log.write('{"t": 17000')
    assert logs.read(10).logs[0].lives() == [Span(at(0), at(10))]


def test_spans_are_joined_shared_and_their_gaps_found() -> None:
    assert joined([Span(5, 9), Span(0, 4)], gap_ms=1) == [Span(0, 9)]
    assert joined([Span(0, None), Span(5, 9)]) == [Span(0, None)]
    assert shared([[Span(0, 10)], [Span(5, 20)], [Span(8, 9)]]) == [Span(5, 10)]
    assert shared([[Span(0, 10)], [Span(10, 20)]]) == []
    assert before([Span(0, 4), Span(2, 9), Span(6, None), Span(9, None)], [Span(5, 8)]) == [
        Span(0, 4),
        Span(2, 5),
        Span(9, None),
    ]
    assert between([Span(3, 5), Span(8, 9)], 0, 10) == [Span(0, 3), Span(5, 8), Span(9, None)]
