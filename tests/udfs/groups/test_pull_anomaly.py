"""What is unusual about a queue's pulls, pull by pull: one table a kind of trouble."""

from dataclasses import replace
from typing import Any

import pytest

from tests.udfs.groups.facts import Heartbeat, Pull, at, subscribes
from udfs.groups.queue_state import Puller
from udfs.groups.state import GroupState

NAME = "broker-a:0"


def after(*pulls: Pull) -> GroupState:
    state = GroupState("c", "g", at(0))
    for pull in pulls:
        state.observe(pull)
    return state


def committed(second: float, offset: int, client_id: str = "A", addr: str = "", end: int | None = None) -> Pull:
    return Pull(client_id, addr or f"{client_id}:1", 0, at(second), commit_offset=offset, max_offset=end)


def offsets(second: float, offset: int) -> Pull:
    return Pull(None, None, 0, at(second), commit_offset=offset, max_offset=200, offsets_only=True)


# Each row: why, the pulls as (second, committed offset, client, address, end of the queue), then the offset before and
# the one after a regression, or None.
REGRESSIONS: list[tuple[str, list[tuple[Any, ...]], tuple[int, int] | None]] = [
    ("offsets that grow", [(0, 10), (10, 20)], None),
    ("one that stays", [(0, 10), (10, 10)], None),
    ("one that falls", [(0, 100), (10, 40)], (100, 40)),
    ("and comes again", [(0, 100), (10, 40), (20, 100)], None),
    ("not quite", [(0, 100), (10, 40), (20, 99)], (100, 40)),
    ("and falls once more", [(0, 100), (10, 40), (20, 50), (30, 10)], (100, 10)),
    ("a hand-over", [(0, 100), (10, 40, "B")], None),
    ("another client, long after", [(0, 100), (60, 40, "B")], (100, 40)),
    ("one that pulls again alone", [(0, 100, "A", "h1:1"), (5, 40, "B", "h2:1"), (60, 100, "A", "h1:1")], None),
    ("twins by turns", [(0, 100, "A", "h1:1"), (5, 40, "A", "h2:1"), (10, 110, "A", "h1:1")], None),
    ("the same client on a new channel", [(0, 100, "A", "h1:1"), (20, 40, "A", "h1:2")], (100, 40)),
    ("a batch, by a client that was restarted", [(0, 100, "A", "h1:1"), (20, 68, "A", "h1:2")], None),
    ("a batch and one more", [(0, 101, "A", "h1:1"), (20, 68, "A", "h1:2")], (101, 68)),
    ("a single message, by one that pulls alone", [(0, 100), (10, 99)], (100, 99)),
    ("a pull that comes late", [(10, 100), (0, 40)], None),
    ("a topic made anew ends before its old offsets", [(0, 100, "A", "", 110), (10, 0, "A", "", 5)], None),
    ("one that is reset ends where it did", [(0, 100, "A", "", 110), (10, 0, "A", "", 110)], (100, 0)),
    ("one reset, then made anew", [(0, 100, "A", "", 110), (10, 40, "A", "", 110), (20, 0, "A", "", 50)], None),
]


@pytest.mark.parametrize(("why", "pulls", "expected"), REGRESSIONS, ids=[row[0] for row in REGRESSIONS])
def test_a_committed_offset_goes_back(why: str, pulls: list[tuple[Any, ...]], expected: tuple[int, int] | None) -> None:
    queue_state = after(*(committed(*pull) for pull in pulls)).topics["orders"].queues[NAME]
    odd = queue_state.anomaly
    found = (odd.high_offset, odd.low_offset) if odd and odd.regressed_ms is not None else None
    assert found == expected, why
    assert queue_state.commit_offset == max(pulls)[1]


def test_a_slave_that_knows_less_makes_no_queue_another_one() -> None:
    group = after(committed(0, 100, end=110), replace(committed(10, 40, end=90), broker_id=1))
    odd = group.topics["orders"].queues[NAME].anomaly
    assert odd is not None
    assert (odd.high_offset, odd.low_offset) == (100, 40)


# Each row: why, the events after a pull at 0 s that committed 100, then when it went back, or None.
BY_OFFSETS: list[tuple[str, list[Pull], float | None]] = [
    ("by offsets alone, long after the newest pull", [offsets(40, 40)], 40),
    ("soon after it the next owner may have begun there", [offsets(10, 40)], None),
    ("the next pull shows that no other client did", [offsets(10, 40), committed(20, 45, end=200)], 20),
    ("so do later offsets", [offsets(10, 40), offsets(50, 60)], 50),
    ("offsets that come again", [offsets(40, 40), offsets(50, 100)], None),
]


@pytest.mark.parametrize(("why", "events", "expected"), BY_OFFSETS, ids=[row[0] for row in BY_OFFSETS])
def test_a_committed_offset_goes_back_though_no_pull_reports_it(
    why: str, events: list[Pull], expected: float | None
) -> None:
    odd = after(committed(0, 100, end=200), *events).topics["orders"].queues[NAME].anomaly
    assert (odd.regressed_ms if odd else None) == (None if expected is None else at(expected)), why


def test_a_refused_pull_shows_that_somebody_asks_and_consumes_nothing() -> None:
    state = after(Pull("A", "A:1", 0, at(5), pull_status="NO_PERMISSION"))
    queue_state = state.topics["orders"].queues[NAME]
    assert (queue_state.pullers, queue_state.last_pull_ms, state.first_pull_ms) == ({}, None, {"broker-a": at(5)})
    assert queue_state.anomaly is not None
    assert queue_state.anomaly.refused_ms == at(5)


def test_turns_are_counted_until_one_pulls_alone() -> None:
    addrs = ("h1:1", "h2:1") * 4
    by_turns = [Pull("A", addr, 0, at(5 * turn)) for turn, addr in enumerate(addrs)]
    odd = after(*by_turns).topics["orders"].queues[NAME].anomaly
    assert odd is not None
    assert odd.turns == 4  # at 5, 15, 25 and 35: once in ten seconds
    alone = [Pull("A", "h2:1", 0, at(second)) for second in (50, 65, 70)]
    odd = after(*by_turns, *alone).topics["orders"].queues[NAME].anomaly
    assert odd is not None
    assert odd.turns == 0


def named_by_turns(state: GroupState) -> None:
    for turn in range(20):
        state.observe(Pull("A", ("h1:1", None)[turn % 2], 0, at(10 * turn)))


def beat(state: GroupState, addr: str) -> None:
    state.membership.register(Heartbeat("A", addr, at(0)), subscribes("orders"))  # type: ignore[arg-type]  # facts


@pytest.mark.parametrize("is_listed", [False, True])
def test_one_client_reported_by_its_address_and_by_its_id_is_one_puller(is_listed: bool) -> None:
    state = after()
    if is_listed:
        beat(state, "h1:1")
    named_by_turns(state)
    queue_state = state.topics["orders"].queues[NAME]
    assert list(queue_state.pullers) == ["h1:1"]
    assert queue_state.anomaly is None


def test_a_client_reported_by_its_id_first_is_the_one_whose_address_is_reported_then() -> None:
    state = after(Pull("A", None, 0, at(0)), Pull("A", "h1:1", 0, at(10)))
    (found,) = state.topics["orders"].queues[NAME].pullers.items()
    assert found == ("h1:1", Puller("A", "h1:1", at(0), at(10)))


def test_a_pull_without_an_address_is_no_evidence_of_a_second_channel() -> None:
    """A client that restarts is listed on its old channel and on its new one for up to 120 s."""
    state = after()
    beat(state, "h1:1")
    beat(state, "h2:1")
    named_by_turns(state)
    queue_state = state.topics["orders"].queues[NAME]
    assert sorted(queue_state.pullers) == ["h1:1"]
    assert queue_state.anomaly is None


def test_an_ordinary_pull_costs_no_state() -> None:
    assert after(committed(0, 10), committed(10, 20)).topics["orders"].queues[NAME].anomaly is None
