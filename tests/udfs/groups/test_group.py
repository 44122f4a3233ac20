"""One group through time, a tick every five seconds: what is said, when, and what is not."""

from tests.udfs.groups.facts import A, B, C, Heartbeat, Life, Pull, at, route, subscribes, two_clients
from udfs.alerts.alert import alert_id
from udfs.alerts.rules import FORGET_GROUP_MS
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.groups.group import tick
from udfs.groups.state import GroupState


def with_twins() -> Life:
    """At 120 a second A comes: of 8 queues A's first slot is 0-2, its second 3-5, B's 6-7."""
    life = two_clients()
    life.start("h3:1", A, 0, 1, 2)
    life.take("h1:1", 0, 1, 2)
    life.take("h2:1", 6, 7)
    return life


def open_queues(life: Life, kind: str) -> tuple[str, ...]:
    return next(incident.queues for incident in life.state.incidents.values() if incident.kind == kind)


def test_a_healthy_group_says_its_owners_once() -> None:
    life = two_clients()
    rows = [(when, row.queue, row.verdict) for when, outcome in life.outcomes for row in outcome.ownership]
    assert {verdict for _, _, verdict in rows} == {"UNKNOWN", "OK"}
    assert len([row for row in rows if row[2] == "OK"]) == 8
    assert all(when <= 10 for when, _, _ in rows)
    assert life.run(1000) == []


def test_twins_are_reported_once_both_are_proven_and_explain_their_queues_once_silent() -> None:
    life = with_twins()
    said = life.run(400)
    assert said == [
        (150, "duplicate_client_id", "FIRING", "duplicate_client_id"),
        (170, "starved_queue", "FIRING", "duplicate_client_id"),
        (190, "double_consumed_queue", "FIRING", "duplicate_client_id"),
    ]
    assert open_queues(life, "duplicate_client_id") == ("broker-a:3", "broker-a:4", "broker-a:5")
    assert open_queues(life, "starved_queue") == ("broker-a:3", "broker-a:4", "broker-a:5")
    assert list(life.verdicts().values()) == ["DOUBLE_CONSUMED"] * 3 + ["UNOWNED"] * 3 + ["OK"] * 2
    cause, *effects = life.state.incidents.values()
    assert [effect.kind for effect in effects] == ["starved_queue", "double_consumed_queue"]
    assert cause.inhibited_by is None
    assert {effect.inhibited_by for effect in effects} == {cause.incident_id}
    assert [incident.severity for incident in (cause, *effects)] == ["critical", "critical", "warning"]


def test_a_twin_that_leaves_ends_its_own_alert_at_once_and_the_starvation_with_the_next_pulls() -> None:
    life = with_twins()
    life.run(400)
    life.leave("h3:1")
    assert life.run(430) == [
        (405, "duplicate_client_id", "RESOLVED", "duplicate_client_id"),
        (405, "double_consumed_queue", "RESOLVED", "duplicate_client_id"),
    ]
    life.take("h1:1", 0, 1, 2, 3)
    assert life.run(435) == []
    life.take("h2:1", 4, 5, 6, 7)
    said = life.run(500)
    assert [row[1:] for row in said] == [("starved_queue", "RESOLVED", "duplicate_client_id")]
    assert life.state.incidents == {}


def test_a_new_plan_alone_does_not_end_a_starvation() -> None:
    life = with_twins()
    life.run(400)
    life.leave("h3:1")
    said = life.run(480)
    assert ("starved_queue", "RESOLVED") not in {(kind, state) for _, kind, state, _ in said}
    assert {life.verdicts()[queue] for queue in (3, 4, 5)} == {"NOT_CONSUMED"}


def test_twins_on_a_topic_with_one_queue_starve_nothing_and_warn() -> None:
    life = Life(queues=1)
    life.start("h1:1", A, 0)
    life.start("h2:1", A, 0)
    assert life.run(300) == [
        (30, "duplicate_client_id", "FIRING", "duplicate_client_id"),
        (85, "double_consumed_queue", "FIRING", "duplicate_client_id"),
    ]
    cause, effect = life.state.incidents.values()
    assert (cause.severity, cause.queues, effect.queues) == ("warning", (), ("broker-a:0",))


def test_broadcasting_clients_with_one_id_are_no_duplicate_and_not_judged() -> None:
    life = Life()
    for addr in ("h1:1", "h2:1"):
        life.start(addr, "10.0.0.1@DEFAULT", *range(8), message_model="BROADCASTING")
    assert life.run(400) == []
    assert set(life.verdicts().values()) == {"NOT_JUDGED"}


def test_one_broadcasting_member_takes_the_judgement_from_all() -> None:
    life = Life()
    life.start("h1:1", A, 0, 1, 2, 3)
    life.start("h2:1", B, *range(8), message_model="BROADCASTING")
    life.run(400)
    assert set(life.verdicts().values()) == {"NOT_JUDGED"}


def test_a_reconnect_is_no_twin_and_its_queues_are_no_alert() -> None:
    life = two_clients()
    life.freeze("h1:1")
    life.start("h1:2", A, 0, 1, 2)  # the old channel keeps a slot until it expires at 240
    life.take("h2:1", 6, 7)
    assert life.run(235) == []
    assert {life.verdicts()[queue] for queue in (3, 4, 5)} == {"UNOWNED"}
    life.take("h1:2", 0, 1, 2, 3)
    life.take("h2:1", 4, 5, 6, 7)
    assert life.run(600) == []
    assert set(life.verdicts().values()) == {"OK"}


def test_queues_of_clients_that_a_broker_lists_twice_starve_after_80_seconds() -> None:
    """A broker that hung after its restart lists closed connections of several clients (apache/rocketmq 9830)."""
    life = two_clients()
    for old, new, client_id, queues in (("h1:1", "h1:2", A, (0, 1)), ("h2:1", "h2:2", B, (4, 5))):
        life.freeze(old)
        life.start(new, client_id, *queues)
    assert life.run(220) == [(205, "starved_queue", "FIRING", "duplicate_client_id")]
    (incident,) = life.state.incidents.values()
    assert incident.queues == ("broker-a:2", "broker-a:3", "broker-a:6", "broker-a:7")
    assert "belong to no client" in incident.text.summary
    assert "9830" in incident.text.advice


def test_a_frozen_client_is_reported_after_70_seconds_without_a_heartbeat_with_all_its_queues() -> None:
    life = two_clients()
    life.freeze("h2:1")  # last heard and last pulling at 120
    assert life.run(235) == [(190, "starved_queue", "FIRING", "frozen_client")]
    (incident,) = life.state.incidents.values()
    assert incident.queues == ("broker-a:4", "broker-a:5", "broker-a:6", "broker-a:7")
    assert (incident.client_id, incident.started_at_ms, incident.severity) == (B, at(120), "critical")


def test_a_frozen_client_that_expires_is_over_when_another_pulls_its_queues() -> None:
    life = two_clients()
    life.freeze("h2:1")
    life.run(240)
    changes = [change.change for _, outcome in life.outcomes for change in outcome.changes]
    assert changes == ["EXPIRED"]
    life.take("h1:1", *range(8))
    assert life.run(400) == [(250, "starved_queue", "RESOLVED", "frozen_client")]


def test_a_client_that_heartbeats_and_does_not_pull_is_reported_after_120_seconds() -> None:
    life = two_clients()
    life.take("h2:1")
    assert life.run(500) == [
        (200, "stalled_queue", "FIRING", "pull_stopped"),
        (240, "starved_queue", "FIRING", "pull_stopped"),
        (240, "stalled_queue", "FIRING", "pull_stopped"),
    ]
    page, early_sign = (life.state.incidents[f"{kind} orders"] for kind in ("starved_queue", "stalled_queue"))
    assert (page.severity, page.inhibited_by) == ("critical", None)
    assert (early_sign.severity, early_sign.inhibited_by) == ("warning", page.incident_id)


def test_one_stuck_queue_of_a_pulling_client_is_reported_alone() -> None:
    life = two_clients()
    life.take("h2:1", 4, 5, 6)
    life.run(500)
    assert open_queues(life, "starved_queue") == ("broker-a:7",)


def test_a_group_that_goes_offline_is_reported_after_80_seconds_as_a_warning() -> None:
    life = two_clients()
    life.leave("h1:1")
    life.leave("h2:1")
    assert life.run(500) == [
        (205, "group_offline", "FIRING", "group_offline"),
        (205, "starved_queue", "FIRING", "group_offline"),
    ]
    page, effect = life.state.incidents.values()
    assert (page.severity, page.inhibited_by, page.started_at_ms) == ("warning", None, at(120))
    assert (len(effect.queues), effect.client_id, effect.inhibited_by) == (8, None, page.incident_id)
    life.start("h1:2", A, *range(8))
    assert {row[1:] for row in life.run(600)} == {
        ("group_offline", "RESOLVED", "group_offline"),
        ("starved_queue", "RESOLVED", "group_offline"),
    }


def test_a_restart_of_the_whole_group_within_80_seconds_is_no_alert() -> None:
    life = two_clients()
    life.leave("h1:1")
    life.leave("h2:1")
    assert life.run(180) == []
    life.start("h1:2", A, 0, 1, 2, 3)
    life.start("h2:2", B, 4, 5, 6, 7)
    assert life.run(600) == []


def test_a_member_that_does_not_subscribe_the_topic_starves_its_slot() -> None:
    life = two_clients()
    life.start("h3:1", C, topics=("payments",))
    life.take("h1:1", 0, 1, 2)
    life.take("h2:1", 3, 4, 5)
    assert life.run(230) == [
        (205, "starved_queue", "FIRING", "member_not_subscribed"),
        (205, "inconsistent_subscription", "FIRING", "inconsistent_subscription"),
    ]
    page, reason = life.state.incidents.values()
    assert (page.client_id, page.queues) == (C, ("broker-a:6", "broker-a:7"))
    assert (reason.client_id, reason.inhibited_by) == (C, page.incident_id)


def test_queues_that_starve_later_are_written_as_one_more_row_of_the_incident() -> None:
    life = two_clients()
    life.take("h2:1", 4, 5, 6)
    life.run(300)
    before = open_queues(life, "starved_queue")
    life.take("h2:1", 4, 5)
    said = [row for row in life.run(600) if row[1] == "starved_queue"]
    assert said == [(440, "starved_queue", "FIRING", "pull_stopped")]
    incident = life.state.incidents["starved_queue orders"]
    assert (before, incident.queues) == (("broker-a:7",), ("broker-a:6", "broker-a:7"))
    assert incident.started_at_ms == at(120)


def test_the_same_trouble_later_is_another_incident_of_the_same_alert() -> None:
    life = two_clients()
    ids = []
    for until in (500, 1000):
        life.take("h2:1")
        life.run(until)
        ids.append(next(iter(life.state.incidents.values())))
        life.take("h2:1", 4, 5, 6, 7)
        life.run(until + 60)
        assert life.state.incidents == {}
    assert ids[0].alert_id == ids[1].alert_id
    assert ids[0].incident_id != ids[1].incident_id


def test_a_group_of_which_only_heartbeats_are_known_is_unknown_and_never_an_alert() -> None:
    life = Life()
    life.start("h1:1", A)
    life.start("h2:1", B)
    assert life.run(1000) == []
    assert set(life.verdicts().values()) == {"UNKNOWN"}


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


def test_where_the_strategy_cannot_be_recomputed_whoever_pulls_is_right_and_what_nobody_pulls_is_its_gap() -> None:
    life = Life()
    life.start("h1:1", A, 0, 1, 2, 3, strategy="CONFIG")
    assert life.run(400) == [(85, "starved_queue", "FIRING", "strategy_gap")]
    assert list(life.verdicts().values()) == ["OK"] * 4 + ["UNOWNED"] * 4
    assert open_queues(life, "starved_queue") == ("broker-a:4", "broker-a:5", "broker-a:6", "broker-a:7")


def test_a_topic_that_is_deleted_ends_its_incident() -> None:
    life = two_clients()
    life.take("h2:1")
    life.run(300)
    life.queues, life.state.is_stale = 0, True
    assert life.run(310) == [
        (305, "starved_queue", "RESOLVED", "pull_stopped"),
        (305, "stalled_queue", "RESOLVED", "pull_stopped"),
    ]


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
