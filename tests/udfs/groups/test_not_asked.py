"""Missing data of the newest round is UNKNOWN unless other data shows more; the rest: tests/golden/groups.txt."""

import pytest

from tests.support.rules import default_rules
from tests.udfs.groups.facts import BOTH, A, B, Life, Pull, at, fired_kinds, play, two_clients
from udfs.alerts.alert import Transition
from udfs.brokers.broker_coverage import EVERY_MEMBER, NO_PULLS, BrokerCoverage, Unasked
from udfs.brokers.cluster import evaluate_cluster
from udfs.brokers.cluster_state import ClusterState
from udfs.brokers.rounds import Tick
from udfs.groups.snapshot import NotAsked
from udfs.groups.verdict_reason import NO_COLLECTOR, NOT_ASKED, REFUSED

A_UNASKED = Unasked(None, "order-service", A, "timed_out", at(120))


@pytest.mark.parametrize(
    ("unasked", "cause"),
    [(A_UNASKED, "consume_stopped"), (Unasked("broker-a", None, None, NO_PULLS, at(120)), "pull_stopped")],
)
def test_commits_and_heartbeats_are_judged_though_pulls_are_not_known(unasked: Unasked, cause: str) -> None:
    """Of a member that was not asked, or at a broker that reports no pulls."""
    life = two_clients(Life(broker_coverage=BrokerCoverage(answered=frozenset({"broker-a"}))))
    life.take("h1:1")
    life.broker_coverage = BrokerCoverage(answered=frozenset(life.brokers), unasked=(unasked,))
    for step in range(60):
        reported = {"commit_offset": 5, "max_offset": 10 + step, "offsets_only": True}
        life.state.observe(Pull(None, None, 0, at(life.now), **reported))  # type: ignore[arg-type]  # by name
        life.run(life.now + 10)
    assert life.verdicts()[:2] == ["NOT_CONSUMED", "UNKNOWN"]
    assert life.state.incidents["starved_queue orders"].cause == cause
    life.freeze("h1:1")
    life.run(life.now + 110)
    assert life.state.incidents["starved_queue orders"].has_fired


@pytest.mark.parametrize(
    ("reason", "code"), [("refused", REFUSED), ("failed", NOT_ASKED), ("no_collector", NO_COLLECTOR)]
)
def test_a_group_that_is_refused_at_a_broker_is_unknown_there_and_nobody_expires(reason: str, code: str) -> None:
    life = Life(brokers=BOTH, queues=4, broker_coverage=BrokerCoverage(answered=frozenset(BOTH)))
    play(life, "start h1:1 A 0-3; start h2:1 B broker-b:0 broker-b:1 broker-b:2 broker-b:3; to 120")
    play(life, f"cut h1:1 broker-b; cut h2:1 broker-b; take h2:1; unasked broker-b * {reason}; to 900")
    assert fired_kinds(life) == set()
    assert {member.client_id for member in life.state.membership.views["broker-b"].values()} == {A, B}
    queues = life.state.topics["orders"].queues
    assert {
        (queue_state.verdict, queue_state.reason) for name, queue_state in queues.items() if "broker-b" in name
    } == {("UNKNOWN", code)}
    assert {queue_state.verdict for name, queue_state in queues.items() if "broker-a" in name} == {"OK"}


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


def test_one_entry_may_stand_for_all_members() -> None:
    unasked = (Unasked(None, "order-service", EVERY_MEMBER, "no_time", at(10)),)
    found = NotAsked.of("order-service", BOTH, [A, B], BrokerCoverage(unasked=unasked), at(0))
    assert (found.brokers, found.members, found.lately) == ({}, {A: NOT_ASKED, B: NOT_ASKED}, {A, B})
