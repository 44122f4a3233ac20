"""The shards on the smallest logs: one group, one or two brokers, told by hand."""

from typing import Any

import pytest

from streaming.queries.shard import work_through
from streaming.queries.state import ShardState
from streaming.queries.store import DictShardStore
from streaming.replay.stream import parcels_for
from tests.queries.events import BOTH, Event, asked, beat, clock, groups_of_two, in_order, pull, route
from tests.queries.logs import SECOND, START, Rows, alerts
from tests.support.engine import cut, messages_of, replay
from tests.support.rules import default_rules, kind_rules
from udfs.alerts.rulebook import Rulebook

pytestmark = pytest.mark.replay


def planned_owners(rows: Rows) -> list[str | None]:
    return [row["planned_owner"] for row in sorted(rows["assignments"], key=lambda r: r["changed_at"])][-8:]


@pytest.mark.parametrize("last_batches", [[4], [2, 2]], ids=["with_a_new_tick", "with_a_past_tick"])
def test_a_late_leave_is_planned_for_at_the_next_tick(last_batches: list[int]) -> None:
    first = [route(0), beat(0, "A", "h1:1"), *(pull(1, queue_id) for queue_id in range(8)), clock(5)]
    then = [beat(3, "A", "h1:1", leaving=True), clock(4, source="run"), clock(10), clock(15)]
    messages = messages_of([*first, *then])
    batches, start = [messages[: len(first)]], len(first)
    for size in last_batches:
        batches.append(messages[start : start + size])
        start += size
    rows = replay(batches)
    assert [row["change"] for row in rows["memberships"]] == ["JOINED", "LEFT"]
    assert planned_owners(rows) == [None] * 8


def test_an_old_route_that_comes_late_changes_nothing() -> None:
    first = [route(0), beat(0, "A", "h1:1"), clock(5), route(30), clock(35)]
    messages = messages_of([*first, route(10, queues=4), pull(37, 7), clock(40)])
    assert replay([messages])["quarantine"] == []
    assert replay([message] for message in messages)["quarantine"] == []


def test_a_client_whose_port_is_taken_over_by_another_leaves_the_memberships() -> None:
    first = [route(0), beat(0, "A", "h1:1"), clock(5), beat(6, "B", "h1:1")]
    rows = replay([messages_of([*first, *(clock(second) for second in range(10, 500, 30))])])
    newest = {row["client_id"]: row["change"] for row in rows["memberships"]}
    assert newest["B"] == "EXPIRED"
    assert newest["A"] != "JOINED"


# A group that starves: its only member is frozen after its first pulls. Ticks come every 5 s.


def frozen(until: int, **reported: Any) -> list[Event]:
    ticks = [clock(second, **reported) for second in range(5, until, 5)]
    return [route(0), beat(0, "A", "h1:1"), *(pull(1, queue_id) for queue_id in range(8)), *ticks]


def steps(rows: Rows, kind: str) -> list[tuple[int, str, str]]:
    """(second, state, reason) of every row."""
    of_kind = (row for row in rows["alerts"] if row["kind"] == kind)
    return [((row["changed_at"] - START) // SECOND, row["state"], row["reason"]) for row in of_kind]


def test_an_alert_is_pending_before_it_fires_and_every_row_says_why() -> None:
    rows = replay([messages_of(frozen(120))])
    (first, *_, last) = steps(rows, "starved_queue")
    assert (first[1:], last[1:]) == (("PENDING", "first_sign"), ("FIRING", "hold_over"))
    assert {row["labels"] for row in rows["alerts"]} == {'{"cluster": "c", "consumer_group": "g", "topic": "orders"}'}
    assert [row["fired_at"] is None for row in rows["alerts"]] == [True, False]


def test_a_group_that_is_deleted_on_purpose_resolves_with_that_reason_and_is_forgotten() -> None:
    events = [*frozen(120), clock(125, deleted_groups=["g", "another"]), *(clock(at) for at in range(130, 600, 5))]
    for batches in (1, 40):
        rows = replay(cut(messages_of(events), batches))
        assert steps(rows, "starved_queue")[-1] == (125, "RESOLVED", "group_deleted")
        assert {row["kind"] for row in rows["alerts"]} == {"starved_queue"}


def test_a_topic_that_is_deleted_on_purpose_resolves_with_that_reason() -> None:
    beats = [beat(at, "A", "h1:1") for at in range(0, 600, 30)]
    pulls = [pull(at, 0) for at in range(0, 60, 10)]  # then they stop
    ticks = [clock(at) for at in range(5, 600, 5)]
    rows = replay([messages_of(in_order(route(0), *beats, *pulls, *ticks, route(302, 0)))])
    assert ("FIRING", "hold_over") in [step[1:] for step in steps(rows, "starved_queue")]
    assert steps(rows, "starved_queue")[-1][1:] == ("RESOLVED", "topic_deleted")
    assert steps(rows, "starved_queue")[-1][0] == 302


def test_the_monitors_own_absence_is_neither_silence_nor_pending_time() -> None:
    """Pulls and heartbeats until 60 s, nothing at all until 1,000 s, then pulls and heartbeats again."""
    alive = [*range(0, 60, 10), *range(1000, 1200, 10)]
    events = [route(0)]
    for second in alive:
        events += [beat(second, "A", "h1:1"), *(pull(second, queue_id) for queue_id in range(8)), clock(second + 3)]
    rows = replay([messages_of(events)])
    assert rows.get("alerts", []) == []
    assert [row["change"] for row in rows["memberships"]] == ["JOINED"]


def test_a_client_that_is_still_silent_after_a_gap_is_reported_a_hold_later_not_at_once() -> None:
    events = [*frozen(50), *(clock(second) for second in range(1000, 1200, 5))]
    (first, *_) = steps(replay([messages_of(events)]), "starved_queue")
    assert first[0] >= 1045


def test_what_is_not_heard_never_resolves_and_is_unknown() -> None:
    """The only broker falls silent while its queues starve; it stays so for an hour."""
    unheard = [clock(second, brokers_answered=[]) for second in range(120, 3600, 5)]
    rows = replay([messages_of([*frozen(120), *unheard])])
    assert "RESOLVED" not in {row["state"] for row in rows["alerts"]}
    assert "RECOVERING" not in {row["state"] for row in rows["alerts"]}
    assert steps(rows, "cluster_no_data")[0][1:] == ("UNKNOWN", "data_missing")
    assert steps(rows, "cluster_no_data")[-1][1:] == ("FIRING", "hold_over")


def test_every_verdict_says_how_much_of_the_group_was_heard() -> None:
    answered = {**asked(*BOTH), "brokers_answered": ["broker-a"]}
    beats = [beat(second, "A", "h1:1") for second in range(0, 100, 30)]
    ticks = [clock(second, **answered) for second in range(5, 100, 5)]
    rows = replay([messages_of(in_order(route(0, 8, "orders", "broker-b"), *beats, *ticks))])
    assert {row["completeness"] for row in rows["assignments"]} == {0.5}


def test_the_effect_of_a_dead_broker_pages_when_the_broker_is_back_and_the_effect_is_not_gone() -> None:
    """Both brokers have two clients; broker-b gives no data for five minutes, and its queues are pulled no more."""
    events = [route(0, 4, "orders", "broker-b")]
    for second in range(0, 1200, 10):
        is_back = not 120 <= second < 420
        for broker in BOTH[: 2 if is_back else 1]:
            events += [beat(second, client, f"{client}:1", broker_name=broker) for client in ("A", "B")]
        for queue_id in range(4):
            events.append(pull(second, queue_id, "A", "A:1"))
            if second < 120:
                events.append(pull(second, queue_id, "B", "B:1", broker_name="broker-b"))
        events += [clock(second + tick, "run", **asked(*BOTH)) for tick in (1, 6)]
    rows = replay([messages_of(events)])
    starved = [row for row in rows["alerts"] if row["kind"] == "starved_queue" and row["state"] == "FIRING"]
    assert [(row["inhibited_by"] is None, row["reason"]) for row in starved] == [
        (False, "hold_over"),
        (True, "cause_ended"),
    ]


def test_changed_rules_reach_a_group_that_nothing_happens_to() -> None:
    store, rows = DictShardStore(), []
    quieter = default_rules(kinds={**default_rules().kinds, "starved_queue": kind_rules(severity="info")})
    for rules, events in ((default_rules(), frozen(100)), (quieter, [clock(100)]), (quieter, [clock(105)])):
        given = work_through(0, 1, ShardState(store), Rulebook(rules), parcels_for(messages_of(events), 0, 1))
        rows += given.get("alerts", [])
    starved = [row for row in rows if row["kind"] == "starved_queue"]
    assert [(row["state"], row["reason"], row["severity"]) for row in starved[1:]] == [
        ("FIRING", "hold_over", "critical"),
        ("FIRING", "severity_changed", "info"),
    ]


def test_a_dead_broker_is_one_page_however_its_clients_heartbeats_are_spread() -> None:
    """The clock is `run`'s, restarted: it knows no broker by itself. Every queue of the broker starves."""
    fired = [row for row in alerts(replay([messages_of(groups_of_two(600, 200))])) if row["state"] == "FIRING"]
    (page,) = [row for row in fired if row["inhibited_by"] is None]
    assert page["kind"] == "broker_no_data"
    starved = {row["consumer_group"]: row for row in fired if row["kind"] == "starved_queue"}
    assert {row["inhibited_by"] for row in starved.values()} == {page["incident_id"]}
    assert sum(len(row["queues"]) for row in starved.values()) == 24


def test_agents_that_are_all_silent_are_one_page_and_no_group_is_blamed() -> None:
    rows = replay([messages_of(groups_of_two(1500, 200, everywhere=True))])
    assert {row["kind"] for row in alerts(rows) if row["inhibited_by"] is None} == {"cluster_no_data"}
    assert "RESOLVED" not in {row["state"] for row in alerts(rows)}
    assert "EXPIRED" not in {row["change"] for row in rows["memberships"]}


def test_a_frozen_client_pages_at_a_broker_whose_slaves_still_serve() -> None:
    topic, event = route(0)
    slaves_only = {**event, "brokers": [{"broker_name": "broker-a", "broker_ids": [1]}]}
    rows = replay([messages_of([(topic, slaves_only), *frozen(115)[1:]])])
    fired = {row["kind"]: row["inhibited_by"] for row in alerts(rows)}
    assert fired == {"broker_without_master": None, "starved_queue": None}


def test_a_group_that_goes_offline_twice_is_two_incidents() -> None:
    """Its last pull, and so its start, is the same both times."""
    events = [route(0), beat(0, "A", "h1:1"), *(pull(40, queue_id) for queue_id in range(8))]
    events += [beat(30, "A", "h1:1"), beat(60, "A", "h1:1", leaving=True)]
    events += [beat(100, "B", "h2:1"), beat(110, "B", "h2:1", leaving=True)]
    events += [clock(second) for second in range(5, 400, 5)]
    rows = replay([messages_of(in_order(*events))])
    offline = [row for row in rows["alerts"] if row["kind"] == "group_offline"]
    assert [row["state"] for row in offline] == ["PENDING", "RESOLVED", "PENDING", "FIRING"]
    assert offline[0]["incident_id"] != offline[3]["incident_id"]


def test_a_deletion_that_a_later_clock_overtakes_is_not_lost() -> None:
    events = [*frozen(100), clock(108, source="run"), clock(105, deleted_groups=["g"])]
    rows = replay([[message] for message in messages_of(events)])
    assert steps(rows, "starved_queue")[-1][1:] == ("RESOLVED", "group_deleted")
    assert [row["change"] for row in rows["memberships"]][-1] == "LEFT"
    newest = {row["queue_id"]: row["verdict"] for row in rows["assignments"]}
    assert set(newest.values()) == {"NOT_JUDGED"}
