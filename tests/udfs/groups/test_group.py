"""One group through time, a tick every five seconds: what tests/golden/groups.txt (test_lives.py) does not show."""

from tests.udfs.groups.facts import (
    A,
    B,
    C,
    Heartbeat,
    Life,
    Pull,
    at,
    play,
    route,
    subscribes,
    two_clients,
)
from udfs.alerts.alert import alert_id
from udfs.alerts.rules import FORGET_GROUP_MS
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.groups.group import tick
from udfs.groups.state import GroupState


def test_a_healthy_group_says_its_owners_once() -> None:
    life = two_clients()
    rows = [(when, row.queue, row.verdict) for when, outcome in life.outcomes for row in outcome.ownership]
    assert {verdict for _, _, verdict in rows} == {"UNKNOWN", "OK"}
    assert len([row for row in rows if row[2] == "OK"]) == 8
    assert all(when <= 10 for when, _, _ in rows)
    assert life.run(1000) == []


def test_pulls_without_members_are_not_judged_and_forgotten_when_they_end() -> None:
    """assign(): nobody shares the queues out."""
    state = GroupState("c", "g", at(0))
    for second in range(0, 60, 10):
        state.observe(Pull(None, "h1:1", 0, at(second)))
        outcome = tick(state, {"orders": route()}, at(second), BrokerCoverage(), Life().rules)
    assert {row.verdict for row in outcome.ownership} <= {"NOT_JUDGED"}
    tick(state, {"orders": route()}, at(200), BrokerCoverage(), Life().rules)
    assert state.is_forgotten()


def test_pulls_of_a_topic_without_a_route_are_forgotten_too() -> None:
    state = GroupState("c", "g", at(0))
    state.observe(Pull(None, "h1:1", 0, at(0)))
    for second in (5, 200, 100_000):
        tick(state, {}, at(second), BrokerCoverage(), Life().rules)
    assert state.is_forgotten()


def test_the_last_row_of_a_group_that_is_forgotten_says_that_nobody_judges_its_queues() -> None:
    """Else a group that is gone for good would stay UNOWNED in the table's newest rows."""
    life = two_clients()
    life.leave("h1:1")
    life.leave("h2:1")
    life.run(400)
    assert set(life.verdicts().values()) == {"UNOWNED"}
    outcome = tick(life.state, {"orders": route()}, at(400) + FORGET_GROUP_MS, BrokerCoverage(), life.rules)
    assert [(row.planned_owner, row.observed_owners, row.verdict) for row in outcome.ownership] == [
        (None, [], "NOT_JUDGED")
    ] * 8
    assert life.state.topics == {}


def test_a_group_that_is_due_is_looked_at_no_later_than_its_next_threshold() -> None:
    """Looking only when due says the same as looking at every tick."""
    life = two_clients()
    life.freeze("h1:1")
    life.freeze("h2:1")
    eager = life.run(700)
    lazy = two_clients()
    lazy.freeze("h1:1")
    lazy.freeze("h2:1")
    said, due_ms = [], lazy.outcomes[-1][1].due_ms
    for second in range(125, 705, 5):
        if due_ms is not None and due_ms <= at(second):
            outcome = tick(lazy.state, {"orders": route()}, at(second), BrokerCoverage(), lazy.rules)
            due_ms = outcome.due_ms
            fired = (row for row in outcome.transitions if row.incident.has_fired)
            said += [(second, row.incident.kind, row.state, row.incident.cause) for row in fired]
    assert said == eager
    assert [row[1:] for row in eager] == [
        ("starved_queue", "FIRING", "frozen_client"),
        ("group_offline", "FIRING", "group_offline"),
        ("starved_queue", "FIRING", "group_offline"),
    ]


def test_a_member_first_heard_without_subscriptions_is_not_taken_for_one_that_subscribes_nothing() -> None:
    """Heartbeat V2: a stream that begins in the middle hears only `without_sub`, beside older clients' whole ones."""
    life = Life()
    life.start("h1:1", A, 0, 1, 2, 3)
    beat = Heartbeat(B, "h2:1", at(0), client_version="5.3.3", without_sub=True)
    life.state.membership.register(beat, subscribes())
    for second in range(0, 60, 10):
        for queue_id in (4, 5, 6, 7):
            life.state.observe(Pull(B, "h2:1", queue_id, at(second)))
    life.run(60)
    assert "MISPLACED" not in life.verdicts().values()


def test_a_topic_the_whole_group_gives_up_is_watched_no_more_and_its_incident_ends() -> None:
    state = GroupState("c", "g", at(0))
    rules, routes = Life().rules, {"orders": route(), "payments": route()}
    labels = {"cluster": "c", "consumer_group": "g", "topic": "orders"}
    said, alert = [], alert_id("starved_queue", labels)
    for second in range(0, 300, 5):
        if second % 30 == 0:
            topics = ("orders", "payments") if second < 210 else ("payments",)
            state.membership.register(Heartbeat(A, "h1:1", at(second)), subscribes(*topics))
            state.is_stale = True
        if second % 10 == 0 and second < 60:
            state.observe(Pull(A, "h1:1", 0, at(second)))
        outcome = tick(state, routes, at(second), BrokerCoverage(), rules)
        said += [(second, row.state) for row in outcome.transitions if row.incident.alert_id == alert]
    assert [state for _, state in said] == ["PENDING", "FIRING", "FIRING", "RESOLVED"]  # queue 0 joins later
    assert said[-1] == (210, "RESOLVED")
    assert "orders" not in state.topics


def test_a_group_that_is_offline_for_a_day_is_given_up_and_forgotten() -> None:
    life = Life()
    play(life, "start h1:1 A 0-7; to 120; leave h1:1; to 400")
    assert {incident.kind for incident in life.state.incidents.values()} == {"group_offline", "starved_queue"}
    due_ms = life.outcomes[-1][1].due_ms
    assert due_ms is not None
    assert due_ms <= at(125) + FORGET_GROUP_MS
    life.now += FORGET_GROUP_MS / 1000
    life.run(life.now + 10)
    assert life.state.incidents == {}
    assert life.state.is_forgotten()


def test_members_that_come_and_go_do_not_hide_a_gap_of_a_strategy_that_cannot_be_recomputed() -> None:
    life = Life()
    said = play(life, "start h1:1 A 0-3 strategy=MACHINE_ROOM; start h2:1 B 4-6 strategy=MACHINE_ROOM; to 5")
    for turn in range(8):
        life.start(f"h3:{turn}", C, strategy="MACHINE_ROOM")
        said += play(life, f"to {life.now + 35}")
        said += play(life, f"leave h3:{turn}; to {life.now + 35}")
    assert any(row.endswith(" starved_queue strategy_gap") for row in said)
