"""A cluster's own alerts: what gives no data, what has no master, and what they explain: tests/golden/brokers.txt."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.golden import Case, each_case, scalar
from tests.support.rules import default_rules, kind_rules
from udfs.alerts.alert import Transition
from udfs.alerts.rules import Rules
from udfs.brokers.cluster import Overview, evaluate_cluster
from udfs.brokers.cluster_findings import explains
from udfs.brokers.cluster_state import ClusterState, QueueChange
from udfs.brokers.mute_brokers import Pulling, SampledHeartbeat, note_puller_heartbeat, note_pulling
from udfs.brokers.rounds import Tick

START = 1_700_000_000_000


def at(second: float) -> int:
    return START + round(second * 1_000)


RULES = default_rules(kinds={"*": kind_rules(pending_evaluations=1, recovering_ms=30_000)})


@dataclass
class Cluster:
    """A cluster with a topic on each broker; `speaks` is who gives data where at each tick, `others` the addresses and
    NameServers of further collectors.
    """

    brokers: frozenset[str]
    rules: Rules = RULES
    state: ClusterState = field(default_factory=ClusterState)
    nums: dict[str, int] = field(default_factory=dict)
    speaks: dict[str, Iterable[str]] = field(default_factory=dict)
    reported: dict[str, Any] = field(default_factory=dict)
    others: dict[str, dict[str, Any]] = field(default_factory=dict)
    without_data: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    interval: int = 5
    now: int = 0
    overview: Overview | None = None

    def __post_init__(self) -> None:
        self.asked = self.brokers
        self.route(**dict.fromkeys(sorted(self.brokers), 4))

    def route(self, masterless: Iterable[str] = (), **nums: int) -> None:
        change = QueueChange("t", self.nums, nums) if self.nums else None
        self.state.learn_route(set(self.nums), set(nums), set(masterless), at(self.now), change)
        self.nums = nums

    def pull(self, broker_name: str, group: str, client: str, second: float | None = None, **reported: bool) -> None:
        at_ms = at(self.now if second is None else second)
        note_pulling(self.state, Pulling("c", broker_name, group, client, at_ms, **reported))

    def run(self, until: int) -> list[Transition]:
        rows = []
        while self.now < until:
            self.now += self.interval
            now_ms = at(self.now)
            for broker_name, client_ids in self.speaks.items():
                for client_id in client_ids:
                    heartbeat = SampledHeartbeat("c", broker_name, client_id, now_ms, is_leaving=False)
                    note_puller_heartbeat(self.state, heartbeat)
                    self.state.heartbeat_sample.note(broker_name, client_id, now_ms)
            sources = [{"source": "collector", "is_own": False, **self.reported}]
            sources += [{"source": name, "is_own": False, **reported} for name, reported in self.others.items()]
            for late, source in enumerate(sources):
                tick = Tick(now_ms + late * 1_000, self.asked, self.asked - self.without_data, **source)
                self.overview = evaluate_cluster(self.state, "c", tick, self.rules)
                rows += self.overview.transitions
        return rows


def _spoken(cluster: Cluster, brokers: str, clients: str) -> None:
    for broker_name in brokers:
        cluster.speaks[broker_name] = () if clients == "-" else clients.split(",") if "," in clients else clients


def _route(cluster: Cluster, *words: str, no_master: str = "") -> None:
    cluster.route(no_master, **{name: int(count) for name, _, count in (word.partition(":") for word in words)})


def _servers(names: str, away: str = "") -> dict[str, Any]:
    return {"name_servers": tuple(names.split(",")), "unreachable": frozenset(filter(None, away.split(",")))}


def _also(cluster: Cluster, name: str, servers: str = "", **addresses: str) -> None:
    cluster.others[name] = {"addresses": addresses, **(_servers(servers) if servers else {})}


STEPS: dict[str, Callable[..., object]] = {
    "no_data": lambda cluster, brokers="": setattr(cluster, "without_data", frozenset(brokers)),
    "asked": lambda cluster, brokers="": setattr(cluster, "asked", frozenset(brokers) or cluster.brokers),
    "every": lambda cluster, seconds: setattr(cluster, "interval", int(seconds)),
    "speak": _spoken,
    "own": lambda cluster: cluster.reported.update(is_own=True),
    "route": _route,
    "topic": lambda cluster, name: cluster.state.learn_route(set(), {name}, set(), at(cluster.now)),
    "drop": lambda cluster, name: cluster.state.learn_route({name}, set(), set(), at(cluster.now)),
    "servers": lambda cluster, names, away="": cluster.reported.update(_servers(names, away)),
    "at": lambda cluster, **addresses: cluster.reported.update(addresses=addresses),
    "also": _also,
    "pull": lambda cluster, *words: cluster.pull(*words[:3], *map(float, words[3:])),
    "full": lambda cluster, *words: cluster.pull(*words, is_held_back=True),
    "offsets": lambda cluster, broker_name: cluster.pull(broker_name, "g1", ""),
    "off": lambda cluster, kind: setattr(
        cluster, "rules", default_rules(kinds={**cluster.rules.kinds, kind: kind_rules(is_enabled=False)})
    ),
}
"""The head of tests/golden/brokers.txt explains them."""


def described(row: Transition) -> str:
    incident, reason = row.incident, str(row.reason)
    words = [
        str((row.changed_at_ms - START) // 1_000),
        incident.kind,
        *({row.state} - {"FIRING"}),
        incident.broker_name,
    ]
    words += ["under" if incident.inhibited_by and row.state != "RESOLVED" else None]
    return " ".join(filter(None, [*words, reason if row.state == "RESOLVED" and reason != "recovered" else None]))


@each_case("brokers")
def test_a_cluster(case: Case) -> None:
    cluster = Cluster(frozenset(case.start))
    rows: list[Transition] = []
    for verb, *given in map(str.split, case.steps.split(";")):
        words = [word for word in given if "=" not in word]
        if verb == "to":
            rows = cluster.run(int(words[0]))
        else:
            STEPS[verb](cluster, *words, **dict(word.split("=") for word in given if "=" in word))
    assert cluster.overview is not None
    coverage, incidents = cluster.overview.coverage, cluster.state.incidents
    case.assert_rows([described(row) for row in rows])
    for name in ("explained", "silent", "without_data", "masterless", "unserved"):
        brokers = "".join(sorted(getattr(coverage, name))) or "-"
        assert case.checks.pop(name, brokers) == brokers, name
    above = {incident.incident_id: key for key, incident in incidents.items()}.get(coverage.cluster_id or "", "-")
    assert case.checks.pop("explains", above) == above
    assert int(case.checks.pop("gap", coverage.gap_ms // 1_000)) * 1_000 == coverage.gap_ms
    completeness = rows[-1].completeness if rows else None
    case.assert_incidents(
        incidents,
        lambda name, text: float(text) if "." in text else scalar(text, at, name),
        completeness=completeness,
    )


def test_a_broker_that_answers_one_round_of_ten_is_reported_and_its_rows_do_not_flap() -> None:
    cluster, rows = Cluster(frozenset("abcd")), list[Transition]()
    while cluster.now < 1_800:
        rows += cluster.run(cluster.now + 5)
        cluster.without_data = frozenset("b")
        rows += cluster.run(cluster.now + 45)
        cluster.without_data = frozenset()
    (fired,) = [row for row in rows if row.state == "FIRING" and row.reason == "hold_over"]
    assert (fired.incident.cause, fired.incident.broker_name) == ("answers_seldom", "b")
    assert fired.changed_at_ms < at(300)
    assert fired.incident.evidence["missed_rounds_share"] > 0.8
    assert [row.state for row in rows if row.state != "FIRING"] == ["UNKNOWN", "RESOLVED", "UNKNOWN"]
    assert cluster.run(cluster.now + 300)[-1].state == "RESOLVED"


def test_what_is_reported_of_a_broker_that_never_pages_explains_nothing_for_ever() -> None:
    """Its incident stays UNKNOWN, because it gives data now and then."""
    cluster = Cluster(frozenset("abcd"), without_data=frozenset("b"))
    cluster.run(100)
    (incident,) = cluster.state.incidents.values()
    rules = default_rules()
    assert explains(incident, at(100), rules)
    assert not explains(incident, incident.started_at_ms + rules.no_data_page_ms + rules.settle_ms, rules)


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
