"""NameServers that do not answer, and two clusters under one name."""

from typing import Any

from tests.support.rules import default_rules
from udfs.alerts.alert import Transition
from udfs.brokers.cluster import evaluate_cluster
from udfs.brokers.cluster_state import ClusterState
from udfs.brokers.rounds import Tick

START, SECOND = 1_700_000_000_000, 1_000
BOTH = ("ns-1:9876", "ns-2:9876")


class Cluster:
    """Two brokers, one tick after another."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.transitions: list[Transition] = []

    def tick(self, second: int, source: str = "one", **reported: Any) -> str | None:
        """Evaluate one round; returns the incident that explains everything."""
        brokers = frozenset(["broker-a", "broker-b"])
        tick = Tick(START + second * SECOND, brokers, brokers, is_own=False, source=source, **reported)
        overview = evaluate_cluster(self.state, "c", tick, default_rules())
        self.transitions += overview.transitions
        return overview.cluster_id

    def rows(self) -> list[tuple[str, str, str, int]]:
        """Cause, severity, state and second of each row."""
        return [
            (one.incident.cause, one.incident.severity, one.state, (one.changed_at_ms - START) // SECOND)
            for one in self.transitions
        ]


def test_one_of_two_name_servers_away_for_two_rounds_is_a_warning_and_ends_when_it_answers() -> None:
    cluster = Cluster()
    for second in range(0, 200, 10):
        unreachable = frozenset(BOTH[:1]) if 50 <= second < 100 else frozenset()
        cluster.tick(second, name_servers=BOTH, unreachable=unreachable)
    assert cluster.rows() == [
        ("some_unreachable", "warning", "PENDING", 50),
        ("some_unreachable", "warning", "FIRING", 60),
        ("some_unreachable", "warning", "RECOVERING", 100),
        ("some_unreachable", "warning", "RESOLVED", 160),
    ]
    assert cluster.transitions[1].incident.text == (
        "NameServer ns-1:9876 of cluster c has not answered since 22:14:10 UTC. "
        "Clients and brokers use ns-2:9876 until then.",
        "Check that the NameServer process runs on ns-1:9876 (mqnamesrv, port 9876) and that the collector reaches it.",
    )


def test_all_name_servers_away_is_an_error() -> None:
    cluster = Cluster()
    for second in range(0, 50, 10):
        cluster.tick(second, name_servers=BOTH, unreachable=frozenset(BOTH if second >= 20 else ()))
    assert cluster.rows()[-1] == ("all_unreachable", "error", "FIRING", 30)


def test_a_single_missed_round_and_a_name_server_that_another_collector_reaches_fire_nothing() -> None:
    cluster = Cluster()
    for second in range(0, 100, 10):
        cluster.tick(second, name_servers=BOTH, unreachable=frozenset(BOTH if second == 50 else ()))
    assert "FIRING" not in {state for _, _, state, _ in cluster.rows()}
    shared = Cluster()
    for second in range(0, 100, 10):
        shared.tick(second, "two", name_servers=BOTH)
        shared.tick(second + 1, name_servers=BOTH, unreachable=frozenset(BOTH[:1]) if second else frozenset())
    assert shared.rows() == []


PROD = {"broker-a": "10.1.0.1:10911", "broker-b": "10.1.0.2:10911"}
DEV = {"broker-a": "10.2.0.1:10911", "broker-b": "10.2.0.2:10911"}


def test_two_clusters_of_one_name_are_an_error_that_explains_what_is_wrong_in_their_groups() -> None:
    cluster = Cluster()
    for second in range(0, 100, 10):
        cluster.tick(second, "host/ns-prod", addresses=PROD)
        explained = cluster.tick(second + 4, "host/ns-dev", addresses=DEV)
    assert [row for row in cluster.rows() if row[2] == "FIRING"] == [("two_clusters", "error", "FIRING", 34)]
    incident = cluster.state.incidents["cluster_name_conflict"]
    assert explained == incident.incident_id
    assert "host/ns-dev and host/ns-prod" in incident.text.summary
    assert "collector.cluster" in incident.text.advice


def test_collectors_of_one_cluster_agree_on_a_broker_though_another_has_moved() -> None:
    cluster = Cluster()
    for second in range(0, 100, 10):
        cluster.tick(second, "one", addresses=PROD)
        assert cluster.tick(second + 4, "two", addresses={**PROD, "broker-a": "10.1.0.9:10911"}) is None
        cluster.tick(second + 5, "three")
    assert cluster.rows() == []
