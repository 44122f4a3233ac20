"""A cluster's own alerts: what gives no data, what has no master, and what they explain."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.rules import default_rules, kind_rules
from udfs.alerts.alert import Transition
from udfs.brokers.cluster import Overview, evaluate_cluster
from udfs.brokers.cluster_findings import explains
from udfs.brokers.cluster_state import ClusterState, QueueChange
from udfs.brokers.rounds import Tick

RULES = default_rules(kinds={"*": kind_rules(pending_evaluations=1, recovering_ms=30_000)})
BROKERS = frozenset({"a", "b", "c", "d"})


@dataclass
class Cluster:
    """A cluster with a topic on each broker; ticks every 5 s. `speaks` is who gives data where at each tick."""

    brokers: frozenset[str] = BROKERS
    cluster_state: ClusterState = field(default_factory=ClusterState)
    speaks: dict[str, Iterable[str]] = field(default_factory=dict)
    now: int = 0
    rows: list[Transition] = field(default_factory=list)
    overview: Overview | None = None

    def __post_init__(self) -> None:
        self.cluster_state.learn_route(set(), set(self.brokers), set(), 0)

    def run(self, until: int, *, without_data: Iterable[str] = (), is_own: bool = False, asked: Any = None) -> Overview:
        while self.now < until:
            self.now += 5
            for broker_name, client_ids in self.speaks.items():
                for client_id in client_ids:
                    self.cluster_state.heartbeat_sample.note(broker_name, client_id, self.now * 1000)
            all_asked = self.brokers if asked is None else frozenset(asked)
            tick = Tick(self.now * 1000, all_asked, all_asked - set(without_data), is_own)
            self.overview = evaluate_cluster(self.cluster_state, "c", tick, RULES)
            self.rows += self.overview.transitions
        assert self.overview is not None
        return self.overview

    def reported(self) -> list[tuple[int, str, str, str | None, bool]]:
        return [
            (
                row.changed_at_ms // 1000,
                row.incident.kind,
                row.state,
                row.incident.broker_name,
                row.incident.inhibited_by is not None,
            )
            for row in self.rows
        ]


def test_a_broker_that_does_not_answer_is_unknown_first_then_a_page_and_over_when_it_answers() -> None:
    cluster = Cluster()
    cluster.run(100)
    cluster.run(300, without_data="b")
    cluster.run(400)
    assert cluster.reported() == [
        (135, "broker_no_data", "UNKNOWN", "b", False),
        (225, "broker_no_data", "FIRING", "b", False),
        (305, "broker_no_data", "RECOVERING", "b", False),
        (335, "broker_no_data", "RESOLVED", "b", False),
    ]
    assert cluster.rows[0].incident.started_at_ms == 105_000
    assert [row.completeness for row in cluster.rows] == [0.75, 0.75, 1.0, 1.0]


def test_a_missed_round_says_nothing() -> None:
    cluster = Cluster()
    for second in range(20, 400, 40):
        cluster.run(second)
        cluster.run(second + 20, without_data="bcd")
    assert cluster.reported() == []


def test_most_of_a_cluster_unheard_is_one_alert_with_the_brokers_under_it() -> None:
    cluster = Cluster()
    cluster.run(300, without_data="bcd")
    firing = [row for row in cluster.reported() if row[2] == "FIRING"]
    assert firing == [
        (125, "cluster_no_data", "FIRING", None, False),
        *((125, "broker_no_data", "FIRING", name, True) for name in "bcd"),
    ]
    overview = cluster.run(305, without_data="bcd")
    assert overview.cluster_id is None
    assert set(overview.explained) == set("bcd")


def test_a_cluster_of_which_nothing_is_heard_explains_all_that_is_wrong_in_it() -> None:
    cluster = Cluster()
    overview = cluster.run(300, without_data=BROKERS, is_own=True)
    assert overview.without_data == BROKERS
    assert overview.cluster_id == cluster.cluster_state.incidents["cluster_no_data"].incident_id
    assert cluster.cluster_state.incidents["cluster_no_data"].cause == "collector_silent"


def test_one_dead_broker_of_two_is_reported_as_that_broker() -> None:
    cluster = Cluster(frozenset("ab"))
    cluster.run(300, without_data="b")
    assert {row[1] for row in cluster.reported()} == {"broker_no_data"}


def test_a_broker_that_answers_but_that_none_of_its_clients_reaches_is_unheard_too() -> None:
    cluster = Cluster(speaks=dict.fromkeys("abcd", "xyz"))
    cluster.run(100)
    cluster.speaks.pop("d")
    overview = cluster.run(300)
    assert cluster.reported() == [
        (140, "broker_no_data", "UNKNOWN", "d", False),
        (220, "broker_no_data", "FIRING", "d", False),
    ]
    assert cluster.rows[0].incident.cause == "clients_silent"
    assert cluster.rows[0].incident.started_at_ms == 100_000
    assert (overview.silent, overview.without_data) == ({"d"}, frozenset())


def test_a_broker_that_left_all_routes_is_not_missed() -> None:
    cluster = Cluster(speaks=dict.fromkeys("abcd", "xyz"))
    cluster.run(100)
    cluster.cluster_state.learn_route(set(BROKERS), set("abc"), set(), 100_000)
    cluster.speaks.pop("d")
    cluster.run(900)
    assert cluster.reported() == []


def test_clients_that_are_silent_everywhere_are_no_brokers_trouble_where_brokers_answer() -> None:
    cluster = Cluster(speaks=dict.fromkeys("abcd", "xyz"))
    cluster.run(100)
    cluster.speaks.clear()
    cluster.run(400)
    assert cluster.reported() == []


FOUR, THREE = dict.fromkeys("abcd", 4), dict.fromkeys("acd", 4)


def test_a_dead_broker_is_reported_for_as_long_as_it_is_dead() -> None:
    """The NameServer has dropped it from its routes, and a collector that was started anew never heard of it."""
    cluster = Cluster()
    cluster.run(300, without_data="b")
    cluster.cluster_state.learn_route(set(BROKERS), set("acd"), set(), 300_000, QueueChange("t", FOUR, THREE))
    cluster.run(100_000, asked="acd")
    assert [row[2] for row in cluster.reported()] == ["UNKNOWN", "FIRING"]
    cluster.run(100_100)
    assert [row[2] for row in cluster.reported()] == ["UNKNOWN", "FIRING", "RECOVERING", "RESOLVED"]


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("another broker took its queues over", THREE, {**THREE, "e": 4}),
        ("the others were given more queues", THREE, {**THREE, "a": 8}),
    ],
)
def test_a_dead_broker_whose_topics_people_have_moved_is_given_up(
    why: str, before: dict[str, int], after: dict[str, int]
) -> None:
    cluster = Cluster()
    cluster.run(300, without_data="b")
    cluster.cluster_state.learn_route(set(BROKERS), set("acd"), set(), 300_000, QueueChange("t", FOUR, THREE))
    cluster.run(2_000, asked="acd")
    cluster.cluster_state.learn_route(set("acd"), set(after), set(), 2_000_000, QueueChange("t", before, after))
    cluster.run(2_005, asked="acd")
    assert (cluster.reported()[-1], cluster.rows[-1].reason) == (
        (2_005, "broker_no_data", "RESOLVED", "b", False),
        "given_up",
    ), why


def test_a_broker_that_people_retired_before_they_stopped_it_is_given_up_when_nobody_asks() -> None:
    cluster = Cluster()
    cluster.run(100)
    cluster.cluster_state.learn_route(set(BROKERS), set("acd"), set(), 100_000, QueueChange("t", FOUR, THREE))
    cluster.run(300)
    cluster.run(600, without_data="b")
    cluster.run(605, asked="acd")
    assert cluster.rows[-1].reason == "given_up"


def test_a_broker_that_answers_one_round_of_ten_is_reported_and_its_rows_do_not_flap() -> None:
    cluster = Cluster()
    while cluster.now < 1_800:
        cluster.run(cluster.now + 5)
        cluster.run(cluster.now + 45, without_data="b")
    (fired,) = [row for row in cluster.rows if row.state == "FIRING" and row.reason == "hold_over"]
    assert (fired.incident.cause, fired.incident.broker_name) == ("answers_seldom", "b")
    assert fired.changed_at_ms < 300_000
    assert fired.incident.evidence["missed_rounds_share"] > 0.8
    assert [row.state for row in cluster.rows if row.state != "FIRING"] == ["UNKNOWN", "RESOLVED", "UNKNOWN"]
    cluster.run(cluster.now + 300)
    assert cluster.rows[-1].state == "RESOLVED"


def test_what_is_reported_of_a_broker_that_never_pages_explains_nothing_for_ever() -> None:
    """Its incident stays UNKNOWN, for it gives data now and then; what is wrong under it must be told."""
    cluster = Cluster()
    cluster.run(100, without_data="b")
    (incident,) = cluster.cluster_state.incidents.values()
    rules = default_rules()
    assert explains(incident, 100_000, rules)
    assert not explains(incident, incident.started_at_ms + rules.no_data_page_ms + rules.settle_ms, rules)


def test_a_broker_without_a_master_is_reported_unless_it_is_only_restarted() -> None:
    cluster = Cluster()
    cluster.cluster_state.learn_route(set(BROKERS), set(BROKERS), {"a"}, 0)
    overview = cluster.run(100)
    assert cluster.reported() == [
        (5, "broker_without_master", "PENDING", "a", False),
        (30, "broker_without_master", "FIRING", "a", False),
    ]
    assert overview.masterless == {"a": cluster.rows[0].incident.incident_id}
    assert overview.explained == {}
    again = Cluster()
    again.cluster_state.learn_route(set(BROKERS), set(BROKERS), {"a"}, 0)
    again.run(25)
    again.cluster_state.learn_route(set(BROKERS), set(BROKERS), set(), 25_000)
    again.run(300)
    assert [row[2] for row in again.reported()] == ["PENDING", "RESOLVED"]


@pytest.mark.parametrize("topics", [1, 3])
def test_a_broker_is_forgotten_with_the_last_topic_that_names_it(topics: int) -> None:
    cluster_state = ClusterState()
    for _ in range(topics):
        cluster_state.learn_route(set(), {"a"}, {"a"}, 0)
    for left in range(topics, 0, -1):
        assert cluster_state.topics == {"a": left}
        assert cluster_state.without_master_ms == {"a": 0}
        cluster_state.learn_route({"a"}, set(), set(), 0)
    assert (cluster_state.topics, cluster_state.without_master_ms) == ({}, {})


def test_agents_that_all_fall_silent_leave_the_cluster_unheard_for_hours_and_the_end_is_a_gap() -> None:
    """Only `run` keeps its clock, and asks nobody: that it lists brokers as answered says nothing."""
    cluster = Cluster(speaks=dict.fromkeys("abcd", "xyz"))
    cluster.run(100, is_own=True)
    cluster.speaks.clear()
    overview = cluster.run(10_000, is_own=True)
    assert overview.without_data == BROKERS
    assert [row[2] for row in cluster.reported() if row[1] == "cluster_no_data"] == ["UNKNOWN", "FIRING"]
    incident = cluster.cluster_state.incidents["cluster_no_data"]
    assert (incident.cause, incident.started_at_ms) == ("nothing_arrives", 100_000)
    cluster.speaks["a"] = "x"
    assert cluster.run(10_005, is_own=True).gap_ms == 9_905_000
    assert cluster.run(10_010, is_own=True).gap_ms == 0


def test_a_silent_broker_stays_silent_whatever_becomes_of_its_witnesses() -> None:
    """Its clients are restarted during the outage, with other ids."""
    cluster = Cluster(speaks=dict.fromkeys("abcd", "xyz"))
    cluster.run(100)
    cluster.speaks.pop("d")
    cluster.run(300)
    cluster.speaks = dict.fromkeys("abc", "uvw")
    cluster.run(3_000)
    assert cluster.reported()[-1][2] == "FIRING"
    cluster.speaks["d"] = "u"
    cluster.run(3_100)
    assert [row[2] for row in cluster.reported()[-2:]] == ["RECOVERING", "RESOLVED"]


def test_a_topic_that_moves_off_a_broker_leaves_no_silence_behind() -> None:
    """Another topic stays there, whose only client goes on."""
    cluster = Cluster(speaks={"a": "xyz", "d": "xyz"})
    cluster.cluster_state.learn_route(set(), {"d"}, set(), 0)
    cluster.run(100)
    cluster.cluster_state.learn_route(set(BROKERS), set("abc"), set(), 100_000)
    cluster.speaks["d"] = "s"
    cluster.run(900)
    assert cluster.reported() == []


def test_what_is_off_explains_nothing() -> None:
    rules = default_rules(kinds={"*": kind_rules(), "broker_no_data": kind_rules(is_enabled=False)})
    cluster = Cluster()
    for second in range(5, 300, 5):
        tick = Tick(second * 1000, BROKERS, BROKERS - {"b"}, is_own=False)
        overview = evaluate_cluster(cluster.cluster_state, "c", tick, rules)
    assert overview.explained == {}


def test_a_broker_that_is_heard_again_explains_what_is_under_it_until_that_has_settled() -> None:
    cluster = Cluster()
    cluster.run(140, without_data="b")
    assert cluster.reported() == [
        (35, "broker_no_data", "UNKNOWN", "b", False),
        (125, "broker_no_data", "FIRING", "b", False),
    ]
    early = Cluster()
    early.run(60, without_data="b")
    identity = early.rows[0].incident.incident_id
    assert early.run(65).explained == {"b": identity}
    assert early.rows[-1].reason == "data_returned"
    assert early.run(140).explained == {"b": identity}
    assert early.run(150).explained == {}
