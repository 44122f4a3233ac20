"""A rule that raises: its group is set aside, quarantined and told once, and everything else goes on."""

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from schemas.events import CLOCKS, HEARTBEATS, ROUTES
from streaming.queries import shard
from streaming.queries import tick as tick_module
from streaming.queries.shard import work_through
from streaming.queries.state import ShardState
from streaming.queries.store import DictShardStore
from streaming.queries.working_set import key_of
from streaming.replay.stream import parcels_for
from tests.queries.events import Event, beat, by_ticks, clock, groups_of_two, in_order
from tests.queries.logs import SECOND, START
from tests.queries.test_fault_items import send
from tests.support.engine import Stream, messages_of
from tests.support.rules import default_rules
from udfs.alerts.rulebook import Rulebook
from udfs.groups.state import GroupState
from udfs.producers.board import Board
from udfs.rocketmq.membership import Membership

pytestmark = pytest.mark.replay

Rows = dict[str, list[dict[str, Any]]]
Fault = Callable[[GroupState], bool]


def seconds_of(rows: Rows, kind: str) -> list[tuple[int, str, str | None]]:
    return [
        ((row["changed_at"] - START) // SECOND, row["state"], row["consumer_group"])
        for row in rows.get("alerts", [])
        if row["kind"] == kind
    ]


def breaking(monkeypatch: pytest.MonkeyPatch, is_bad: Fault) -> None:
    """From now on the look at such groups raises half-way, when it has changed the group already."""
    sound = tick_module.tick

    def tick(state: GroupState, *arguments: Any) -> Any:
        outcome = sound(state, *arguments)
        if is_bad(state):
            raise KeyError(f"no owner in {state.consumer_group}")
        return outcome

    monkeypatch.setattr(tick_module, "tick", tick)


def has_nameless_member(state: GroupState) -> bool:
    return any(member.client_id == "nobody" for _, member in state.membership.members())


def with_a_nameless_member_of_g1(until: int, from_s: int, to_s: int) -> list[Event]:
    beats = [beat(second, "nobody", "n:1", "g1", "t1") for second in range(from_s, to_s, 30)]
    return in_order(*groups_of_two(until, until), *beats, beat(to_s, "nobody", "n:1", leaving=True, consumers=[]))


def live(events: list[Event]) -> Rows:
    return Stream().feed_each(by_ticks(events))


def test_a_group_at_which_a_rule_raises_is_reported_once_and_judged_again_when_its_members_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    breaking(monkeypatch, has_nameless_member)
    rows = live(with_a_nameless_member_of_g1(700, 100, 400))
    (fired, over) = seconds_of(rows, "rule_failed")
    assert fired == (104, "FIRING", "g1")
    assert over[1:] == ("RESOLVED", "g1")
    assert over[0] == 404
    assert {row["kind"] for row in rows["alerts"]} == {"rule_failed"}
    assert "KeyError: 'no owner in g1'" in rows["alerts"][0]["summary"]
    (refused,) = rows["quarantine"]
    assert refused["topic"] == CLOCKS
    assert b"event_time_ms" in refused["raw"]
    (reason,) = refused["reasons"]
    assert reason.startswith("rule_failed: KeyError: 'no owner in g1' in ")
    assert "queries/shard.py" in reason
    newest = {(row["consumer_group"], row["broker_name"], row["queue_id"]): row for row in rows["assignments"]}
    assert {row["verdict"] for row in newest.values()} == {"OK"}


def test_every_other_group_is_judged_as_if_nothing_were_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    events = groups_of_two(400, 100)
    sound = Stream().feed(events)
    breaking(monkeypatch, lambda state: state.consumer_group == "g7")
    rows = Stream().feed(events)
    for table in ("alerts", "assignments", "memberships"):
        assert [row for row in rows[table] if row["consumer_group"] != "g7"] == [
            row for row in sound[table] if row["consumer_group"] != "g7"
        ]
    assert {row["kind"] for row in rows["alerts"] if row["consumer_group"] == "g7"} == {"rule_failed"}


@pytest.mark.parametrize("name", ["g7", None], ids=["a group", "a cluster"])
def test_a_rule_that_raises_at_each_tick_of_one_batch_is_reported_and_quarantined_once(
    monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    if name:
        breaking(monkeypatch, lambda state: state.consumer_group == name)
    else:
        monkeypatch.setattr(shard, "advance_clock", Mock(side_effect=ZeroDivisionError("no brokers")))
    rows = Stream().feed(groups_of_two(200, 200))
    ((at, state, group),) = seconds_of(rows, "rule_failed")
    assert (state, group) == ("FIRING", name)
    assert at < 10
    assert len(rows["quarantine"]) == 1


def test_an_event_at_which_a_rule_raises_is_quarantined_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Membership.register

    def register(self: Membership, heartbeat: Any, consumer: Any) -> Any:
        if heartbeat.client_id == "nobody":
            raise ValueError("no name")
        return sound(self, heartbeat, consumer)

    monkeypatch.setattr(Membership, "register", register)
    rows = live(with_a_nameless_member_of_g1(300, 100, 120))
    (refused,) = rows["quarantine"]
    assert (refused["topic"], b'"client_id":"nobody"' in refused["raw"]) == (HEARTBEATS, True)
    assert [(state, name) for _, state, name in seconds_of(rows, "rule_failed")] == [
        ("FIRING", "g1"),
        ("RESOLVED", "g1"),
    ]


def test_what_raises_at_a_route_or_at_the_cluster_itself_leaves_the_other_clusters_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sound = shard.advance_clock

    def hear(entry: Any, clock: Any, *others: Any) -> Any:
        if clock.cluster == "bad" and START + 100 * SECOND < clock.event_time_ms < START + 200 * SECOND:
            raise ZeroDivisionError("no brokers")
        return sound(entry, clock, *others)

    monkeypatch.setattr(shard, "advance_clock", hear)
    good = groups_of_two(400, 150)
    bad = [(topic, {**event, "cluster": "bad"}) for topic, event in groups_of_two(400, 400)]
    merged = sorted([*good, *bad], key=lambda one: (one[1]["event_time_ms"], one[0] == CLOCKS, one[0] != ROUTES))
    rows = live(merged)
    reported = {
        cluster: {row["kind"] for row in rows["alerts"] if row["cluster"] == cluster} for cluster in ("c", "bad")
    }
    assert "broker_no_data" in reported["c"]
    assert reported["bad"] == {"rule_failed"}
    assert [state for _, state, _ in seconds_of(rows, "rule_failed")] == ["FIRING", "RESOLVED"]


def test_changed_rules_have_a_group_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    breaking(monkeypatch, lambda state: state.consumer_group == "g7")
    store, rows = DictShardStore(), []
    events = groups_of_two(200, 200)
    for number, (rules, batch) in enumerate(
        [(default_rules(), events), (default_rules(), [clock(205)]), (default_rules(settle_ms=70_000), [clock(210)])]
    ):
        if number == 1:
            monkeypatch.undo()
        given = work_through(0, 1, ShardState(store), Rulebook(rules), parcels_for(messages_of(batch), 0, 1))
        rows += [(number, row["state"]) for row in given.get("alerts", []) if row["kind"] == "rule_failed"]
    assert rows == [(0, "FIRING"), (2, "RESOLVED")]


def test_a_rule_that_fails_at_a_board_is_reported_once_and_its_state_is_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, seen = DictShardStore(), []

    def work(offset: int) -> Rows:
        (parcel,) = parcels_for([send(offset, latency_ms=600)], 0, 1)
        seen.append(ShardState(store).boards.get(key_of("c", "broker-a")))
        return work_through(0, 1, ShardState(store), Rulebook(default_rules()), [parcel])

    def fail(board: Board, *_: Any) -> Any:
        board.evicted_ms = 8
        raise IndexError("no step")

    def of_board(rows: Rows) -> list[str]:
        return [row["state"] for row in rows["alerts"] if row["kind"] == "rule_failed" and row["broker_name"]]

    assert of_board(work(0)) == []
    with monkeypatch.context() as patched:
        patched.setattr(Board, "advance", fail)
        rows = work(1)
        assert (of_board(rows), len(rows["quarantine"])) == (["FIRING"], 1)
        rows = work(2)
        assert (of_board(rows), rows["quarantine"]) == ([], [])
    assert of_board(work(3)) == ["RESOLVED"]
    (evicted_ms,) = {known.evicted_ms for known in seen[1:] if known is not None}
    assert evicted_ms != 8
    board = ShardState(store).boards.get(key_of("c", "broker-a"))
    assert board is not None
    assert board.incidents == {}
