"""Not asked is not silent: what the newest round did not let hear is UNKNOWN, unless something else tells."""

import pytest

from tests.rules import default_rules
from tests.udfs.groups.facts import BOTH, A, B, Life, Pull, at
from udfs.alerts.alert import Transition
from udfs.brokers.broker_coverage import EVERY_MEMBER, NO_PULLS, BrokerCoverage, Unasked
from udfs.brokers.cluster import evaluate_cluster
from udfs.brokers.cluster_state import ClusterState
from udfs.brokers.rounds import Tick
from udfs.groups.not_asked import NotAsked
from udfs.groups.verdict_reason import NO_COLLECTOR, NOT_ASKED, REFUSED


def without_data(*, broker: str | None = None, client: str | None = None, reason: str = "timed_out") -> Unasked:
    return Unasked(broker, "order-service", client, reason, at(120))


def two_clients(brokers: tuple[str, ...] = ("broker-a",)) -> Life:
    """A takes 0-3 and B takes 4-7, for two minutes already; as a collector tells it."""
    life = Life(brokers=brokers, queues=8 // len(brokers), broker_coverage=BrokerCoverage(answered=frozenset(brokers)))
    names = [f"{broker}:{number}" for broker in brokers for number in range(8 // len(brokers))]
    life.start("h1:1", A, *names[:4])
    life.start("h2:1", B, *names[4:])
    assert life.run(120) == []
    return life


def answered(life: Life, *unasked: Unasked) -> None:
    life.broker_coverage = BrokerCoverage(answered=frozenset(life.brokers), unasked=unasked)


def reasons(life: Life) -> set[str | None]:
    return {queue_state.reason for queue_state in life.state.topics["orders"].queues.values()}


@pytest.mark.parametrize("broker", [None, "broker-a"])
def test_a_member_that_was_not_asked_is_unknown_and_not_silent(broker: str | None) -> None:
    life = two_clients()
    life.take("h1:1")
    answered(life, without_data(broker=broker, client=A))
    assert life.run(900) == []
    assert list(life.verdicts().values()) == ["UNKNOWN"] * 4 + ["OK"] * 4
    assert reasons(life) == {NOT_ASKED, None}


def test_who_answers_again_and_has_not_pulled_is_silent_at_once_and_who_has_is_well() -> None:
    life = two_clients()
    life.take("h1:1")
    answered(life, without_data(client=A))
    life.run(400)
    answered(life)
    assert life.run(405) == [(405, "starved_queue", "FIRING", "pull_stopped")]
    assert life.verdicts()[0] == "NOT_CONSUMED"
    life.take("h1:1", 0, 1, 2, 3)
    life.run(430)
    assert set(life.verdicts().values()) == {"OK"}


def test_a_member_that_was_not_asked_and_whose_heartbeats_are_late_is_frozen() -> None:
    life = two_clients()
    life.freeze("h1:1")
    answered(life, without_data(client=A))
    assert ("starved_queue", "FIRING", "frozen_client") in [row[1:] for row in life.run(240)]


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_member_that_never_reported_a_pull_is_unknown_until_its_heartbeats_are_late(is_frozen: bool) -> None:
    """It froze before the first of slow rounds."""
    life = Life(broker_coverage=BrokerCoverage(answered=frozenset(["broker-a"]), unasked=(without_data(client=A),)))
    life.start("h1:1", A)
    life.start("h2:1", B, 4, 5, 6, 7)
    if is_frozen:
        life.freeze("h1:1")
    fired = life.run(110)
    assert [row[1:] for row in fired] == [("starved_queue", "FIRING", "frozen_client")] * is_frozen
    assert set(list(life.verdicts().values())[:4]) == {"NOT_CONSUMED" if is_frozen else "UNKNOWN"}


@pytest.mark.parametrize("others", [(), (B,)])
def test_a_frozen_member_of_a_strategy_that_is_not_recomputed_is_reported_unless_others_may_pull_for_it(
    others: tuple[str, ...],
) -> None:
    life = Life(broker_coverage=BrokerCoverage(answered=frozenset(["broker-a"])))
    life.start("h1:1", A, 0, 1, 2, 3, strategy="CONFIG")
    life.start("h2:1", B, 4, 5, 6, 7, strategy="CONFIG")
    assert life.run(120) == []
    life.freeze("h1:1")
    answered(life, without_data(client=A), *(without_data(client=other) for other in others))
    reported = [row[1:] for row in life.run(235)]
    assert (("starved_queue", "FIRING", "frozen_client") in reported) == (not others)


@pytest.mark.parametrize(
    ("unasked", "cause"),
    [
        (without_data(client=A), "consume_stopped"),
        (Unasked("broker-a", None, None, NO_PULLS, at(120)), "pull_stopped"),
    ],
)
def test_commits_and_heartbeats_are_judged_though_pulls_are_not_known(unasked: Unasked, cause: str) -> None:
    """Of a member that was not asked, or at a broker that reports no pulls."""
    life = two_clients()
    life.take("h1:1")
    answered(life, unasked)
    for step in range(60):
        reported = {"commit_offset": 5, "max_offset": 10 + step, "offsets_only": True}
        life.state.observe(Pull(None, None, 0, at(life.now), **reported))  # type: ignore[arg-type]  # by name
        life.run(life.now + 10)
    assert list(life.verdicts().values())[:2] == ["NOT_CONSUMED", "UNKNOWN"]
    assert life.state.incidents["starved_queue orders"].cause == cause
    life.freeze("h1:1")
    life.run(life.now + 110)
    assert life.state.incidents["starved_queue orders"].has_fired


def test_pulls_that_a_broker_reports_need_no_asking() -> None:
    life = two_clients()
    life.take("h1:1")
    life.broker_coverage = BrokerCoverage(pulled_ms={"broker-a": at(0)}, unasked=(without_data(client=A),))
    assert ("starved_queue", "FIRING", "pull_stopped") in [row[1:] for row in life.run(400)]


@pytest.mark.parametrize(
    ("reason", "code"), [("refused", REFUSED), ("failed", NOT_ASKED), ("no_collector", NO_COLLECTOR)]
)
def test_a_group_that_is_refused_at_a_broker_is_unknown_there_and_nobody_expires(reason: str, code: str) -> None:
    life = two_clients(BOTH)
    life.cut |= {("h1:1", "broker-b"), ("h2:1", "broker-b")}
    life.take("h2:1")
    answered(life, without_data(broker="broker-b", reason=reason))
    assert life.run(900) == []
    assert {member.client_id for member in life.state.membership.views["broker-b"].values()} == {A, B}
    queues = life.state.topics["orders"].queues
    assert {
        (queue_state.verdict, queue_state.reason) for name, queue_state in queues.items() if "broker-b" in name
    } == {("UNKNOWN", code)}
    assert {queue_state.verdict for name, queue_state in queues.items() if "broker-a" in name} == {"OK"}


def test_a_group_refused_everywhere_keeps_what_was_open_and_is_complete_in_nothing() -> None:
    life = two_clients()
    life.take("h1:1")
    life.run(400)
    assert "starved_queue orders" in life.state.incidents
    answered(life, without_data(reason="refused"))
    assert life.run(900) == []
    assert "starved_queue orders" in life.state.incidents
    assert life.outcomes[-1][1].completeness == 0


def test_an_incident_does_not_end_because_its_owner_is_asked_no_more() -> None:
    life = two_clients()
    life.take("h1:1", 0, 1, 2)
    assert [row[1:] for row in life.run(215)] == [("stalled_queue", "FIRING", "pull_stopped")]
    answered(life, without_data(client=A))
    life.take("h1:1")
    assert life.run(600) == []
    assert "stalled_queue orders" in life.state.incidents


def test_an_ordered_topic_is_not_at_risk_by_a_broker_that_only_refuses_us() -> None:
    life = Life(brokers=BOTH, queues=2, broker_coverage=BrokerCoverage(answered=frozenset(BOTH)))
    life.start("h1:1", A, "broker-a:0", "broker-a:1", "broker-b:0", "broker-b:1", consume_orderly=True)
    life.run(120)
    answered(life, without_data(broker="broker-b", reason="refused"))
    assert life.run(300) == []


def test_entries_of_other_groups_are_none_of_ours() -> None:
    broker_coverage = BrokerCoverage(
        unasked=(Unasked(None, "other", None, "refused", 0), Unasked("broker-b", None, None, "failed", 0))
    )
    found = NotAsked.of("order-service", BOTH, [A], broker_coverage, at(0))
    assert found.brokers == {"broker-b": NOT_ASKED}
    assert found.members == {}


@pytest.mark.parametrize(("since_s", "reported"), [(100, []), (10, ["UNKNOWN", "FIRING"])])
def test_a_broker_that_refuses_its_only_group_is_not_out_of_its_clients_reach(
    since_s: int, reported: list[str]
) -> None:
    """A refusal of long before is no reason for a silence of now."""
    queue_state, rows = ClusterState(), list[Transition]()
    queue_state.learn_route(set(), {"broker-a", "broker-b"}, set(), 0)
    refused = (Unasked("broker-b", "order-service", None, "refused", since_s * 1000),)
    for second in range(5, 400, 5):
        for broker_name in ("broker-a", "broker-b")[: 1 if second > 100 else 2]:
            for client_id in "xyz":
                queue_state.heartbeat_sample.note(broker_name, client_id, second * 1000)
        asked = frozenset({"broker-a", "broker-b"})
        tick = Tick(second * 1000, asked, asked, is_own=False, unasked=refused if second >= since_s else ())
        rows += evaluate_cluster(queue_state, "c", tick, default_rules()).transitions
    assert [row.state for row in rows if row.incident.kind == "broker_no_data"] == reported


@pytest.mark.parametrize(
    ("reported", "reports_answers", "cause"),
    [
        ({"strategy": "CONSISTENT_HASH"}, True, "strategy_gap"),  # a ring without virtual nodes
        ({"strategy": "AVG"}, True, "pull_stopped"),
        ({"strategy": "AVG"}, False, None),  # nobody's pulls are told
        ({"strategy": "AVG", "consume_type": "CONSUME_ACTIVELY"}, True, None),  # does not answer what it holds
        ({}, True, None),  # has answered nothing
    ],
)
def test_push_consumers_that_answer_and_hold_nothing_starve_their_queues_from_the_start(
    reported: dict[str, object], reports_answers: bool, cause: str | None
) -> None:
    life = Life(broker_coverage=BrokerCoverage(answered=frozenset({"broker-a"}), reports_answers=reports_answers))
    life.start("h1:1", A, **reported)
    life.start("h2:1", B, **reported)
    said = [row for row in life.run(600) if row[1] == "starved_queue"]
    assert [row[3] for row in said] == ([cause] if cause else [])
    assert set(life.verdicts().values()) == {"NOT_CONSUMED" if cause else "UNKNOWN"}


def test_who_never_reported_a_pull_beside_members_that_do_stays_unknown() -> None:
    life = Life(broker_coverage=BrokerCoverage(answered=frozenset({"broker-a"}), reports_answers=True))
    life.start("h1:1", A, 0, 1, 2, 3, strategy="AVG")
    life.start("h2:1", B, strategy="AVG")
    assert life.run(600) == []
    assert list(life.verdicts().values()) == ["OK"] * 4 + ["UNKNOWN"] * 4


def test_an_orderly_newcomer_beside_one_who_keeps_the_locks_lacks_them() -> None:
    """It answers that it holds nothing; who pulled its queues before lives, and cannot give the locks back."""
    life = Life(broker_coverage=BrokerCoverage(answered=frozenset({"broker-a"}), reports_answers=True))
    life.start("h2:1", B, *range(8), strategy="AVG", consume_orderly=True)
    life.run(100)
    life.start("h1:1", A, strategy="AVG", consume_orderly=True)
    life.take("h2:1", 4, 5, 6, 7)
    said = [row for row in life.run(300) if row[1] == "starved_queue"]
    assert [row[2:] for row in said] == [("FIRING", "order_lock")]
    assert said[0][0] <= 100 + 80 + 10
    assert life.state.incidents["starved_queue orders"].client_id == A


def test_one_entry_may_stand_for_all_members() -> None:
    unasked = (Unasked(None, "order-service", EVERY_MEMBER, "no_time", at(10)),)
    found = NotAsked.of("order-service", BOTH, [A, B], BrokerCoverage(unasked=unasked), at(0))
    assert (found.brokers, found.members, found.lately) == ({}, {A: NOT_ASKED, B: NOT_ASKED}, {A, B})


def test_a_member_that_was_not_asked_in_the_newest_rounds_is_as_it_was_and_then_unknown() -> None:
    life = two_clients()
    life.take("h1:1")
    answered(life, Unasked(None, "order-service", A, "no_time", at(150)))
    life.run(190)
    assert set(life.verdicts().values()) == {"OK"}
    life.run(200)
    assert list(life.verdicts().values()) == ["UNKNOWN"] * 4 + ["OK"] * 4


def test_a_member_that_never_answers_keeps_no_incident_of_a_queue_open_that_it_takes_over() -> None:
    life = two_clients()
    life.freeze("h1:1")
    answered(life, Unasked(None, "order-service", "c@7", "left_in_peace", at(0)))
    assert life.run(200) == [(190, "starved_queue", "FIRING", "frozen_client")]
    life.start("h3:1", "c@7")
    life.leave("h2:1")
    life.run(400)
    assert life.verdicts()[0] == "UNKNOWN"
    assert not life.state.incidents
