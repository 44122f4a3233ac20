"""One cluster at one tick of the clock: which brokers give no data, have no master, and what that explains.

Every shard knows the same of a cluster and concludes the same; one of them writes it down. So a broker's own alert and
what it inhibits in ten thousand groups are decided in one batch.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from udfs.alerts.alert import Finding, Transition
from udfs.alerts.life import Evaluation, Reason, end, step
from udfs.alerts.rules import Rules
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.brokers.cluster_findings import (
    CLUSTER_NAME_CONFLICT,
    CLUSTER_NO_DATA,
    NAME_SERVER_UNREACHABLE,
    SLOW_COLLECTOR,
    explains,
    find_brokers_no_data,
    find_brokers_without_master,
    find_cluster_no_data,
    find_name_conflict,
    find_name_servers,
    find_slow_collector,
    find_stopped_collectors,
    open_id,
    step_skew,
)
from udfs.brokers.cluster_state import (
    BROKER_NO_DATA,
    BROKER_WITHOUT_MASTER,
    ClusterState,
    note_no_data,
    note_nothing,
    note_retired,
    note_silent,
    waits_under,
)
from udfs.brokers.mute_brokers import find_mute, find_unserved, note_mute
from udfs.brokers.rounds import Tick, missing_ms, scaled

NOBODY_TELLS: Mapping[str, str] = MappingProxyType({})

HEARTBEAT_MS = 30_000
"""MQClientInstance's heartbeat interval: so far apart are the newest heartbeats of a broker's clients."""


@dataclass(frozen=True)
class Overview:
    """The evaluation of a cluster at one tick.

    coverage  which of its brokers give data, and what explains trouble under them, as far as the cluster shows it
    tick      the brokers that all live sources polled, and those that answered
    rules     the cluster's rules, scaled to the interval of its rounds
    resumed   brokers that give data again after a long absence
    """

    coverage: BrokerCoverage
    tick: Tick
    rules: Rules
    resumed: frozenset[str]
    transitions: list[Transition]


def evaluate_cluster(
    cluster_state: ClusterState, cluster: str, tick: Tick, rules: Rules, failing: Mapping[str, str] = NOBODY_TELLS
) -> Overview:
    """Judge the cluster as of this tick. `failing` are brokers to which sends fail, each with the incident that says so
    (producers.findings.failing_brokers).
    """
    now_ms = tick.now_ms
    cluster_state.heartbeat_sample.forget()
    cluster_state.rounds.note(tick)
    for source in cluster_state.rounds.stopped(now_ms).values():  # without the brokers that left service
        source.asked = list(filter(cluster_state.is_served, source.asked))
    cluster_state.rounds.forget(now_ms)
    interval_ms = cluster_state.interval_ms = cluster_state.rounds.interval_ms(now_ms)
    rules = scaled(rules, interval_ms, cluster_state.rounds.usual_gap_ms(now_ms))
    tick = cluster_state.rounds.together(now_ms)
    if not tick.is_own:  # a broker that really answers is no longer forgotten
        for broker_name in tick.answered & cluster_state.forgotten_ms.keys():
            del cluster_state.forgotten_ms[broker_name]
    forgotten = frozenset(cluster_state.forgotten_ms)
    tick = replace(tick, asked=tick.asked - forgotten, answered=tick.answered - forgotten)
    late_ms = now_ms - max(rules.heartbeat_late_ms - HEARTBEAT_MS, HEARTBEAT_MS, interval_ms + 10_000)
    nothing_ms = cluster_state.nothing_ms
    gap_ms = note_nothing(cluster_state, tick, late_ms)
    if nothing_ms is not None and gap_ms <= now_ms - late_ms + rules.no_data_ms:
        gap_ms = 0  # it was late, not away
    without_data = tick.asked if cluster_state.nothing_ms is not None else tick.asked - tick.answered
    resumed = _resumed(cluster_state, tick, without_data, missing_ms(rules, interval_ms))
    note_no_data(cluster_state, tick, without_data)
    cluster_state.missed.note(now_ms, tick.asked, without_data, interval_ms)
    resumed |= note_silent(cluster_state, tick, late_ms, without_data)
    resumed |= note_mute(cluster_state, tick, late_ms, rules)
    note_retired(cluster_state, tick, tick.answered - without_data)
    share = len(tick.asked - without_data) / len(tick.asked) if tick.asked else 1.0
    is_one = len(without_data) == 1 < len(tick.asked)
    if share >= rules.completeness_min or is_one:
        cluster_state.below_ms = None
    elif cluster_state.below_ms is None:
        cluster_state.below_ms = _last_heard_ms(cluster_state, tick, rules)
    mute = list(find_mute(cluster_state, cluster, now_ms, rules))
    of_cluster = [
        *find_cluster_no_data(cluster_state, cluster, tick, without_data, rules),
        *(one for one in mute if one.kind == CLUSTER_NO_DATA),
        *find_stopped_collectors(cluster_state, cluster, now_ms, rules),
    ]
    transitions = list(_step(cluster_state, CLUSTER_NO_DATA, of_cluster, now_ms, share, rules))
    transitions += _give_up(cluster_state, now_ms)
    cluster_id = open_id(cluster_state, CLUSTER_NO_DATA, now_ms, rules)
    before = _by_broker(cluster_state, BROKER_NO_DATA, now_ms, rules)
    of_brokers = [
        *find_brokers_no_data(cluster_state, cluster, cluster_id, now_ms, rules),
        *(one for one in mute if one.kind == BROKER_NO_DATA),
    ]
    of_brokers = _after_producers(cluster_state, of_brokers, failing)
    transitions += _step(cluster_state, BROKER_NO_DATA, of_brokers, now_ms, share, rules)
    without_master = find_brokers_without_master(cluster_state, cluster, now_ms, rules)
    masterless = _after_producers(cluster_state, without_master, failing)
    transitions += _step(cluster_state, BROKER_WITHOUT_MASTER, masterless, now_ms, share, rules)
    for kind, find in (
        (SLOW_COLLECTOR, find_slow_collector),
        (NAME_SERVER_UNREACHABLE, find_name_servers),
        (CLUSTER_NAME_CONFLICT, find_name_conflict),
    ):
        transitions += _step(cluster_state, kind, find(cluster_state, cluster, now_ms), now_ms, share, rules)
    transitions += step_skew(cluster_state, cluster, now_ms, rules)
    all_without_data = frozenset(without_data | cluster_state.no_data_ms.keys())
    coverage = BrokerCoverage(
        without_data=all_without_data,
        silent=frozenset(cluster_state.silent_ms),
        gap_ms=gap_ms,
        explained=_explained(cluster_state, before, now_ms, rules),
        cluster_id=open_id(cluster_state, CLUSTER_NAME_CONFLICT, now_ms, rules)
        or (cluster_id if tick.asked and without_data == tick.asked else None),
        masterless=_by_broker(cluster_state, BROKER_WITHOUT_MASTER, now_ms, rules),
        missed=frozenset(
            name
            for name in all_without_data
            if cluster_state.answered_ms.get(name, 0) > now_ms - missing_ms(rules, interval_ms)
        ),
        unserved=frozenset(find_unserved(cluster_state, late_ms, now_ms - rules.pull_silence_ms)),
    )
    return Overview(coverage, tick, rules, resumed, transitions)


def _last_heard_ms(cluster_state: ClusterState, tick: Tick, rules: Rules) -> int:
    """Since when the brokers that give no data at this tick, the first of its kind, give none.

    `run` ticks in a collector's place some time after its last round. Not before the longest gap between evaluations,
    for who was not there cannot know since when there was nothing.
    """
    if cluster_state.nothing_ms is not None:
        return cluster_state.nothing_ms
    sources = cluster_state.rounds.sources.values() if tick.is_own else ()
    heard_ms = max((one.now_ms for one in sources if not one.is_own and one.answered), default=tick.now_ms)
    return max(heard_ms, tick.now_ms - rules.max_evaluation_gap_ms)


def _after_producers(
    cluster_state: ClusterState, findings: Iterable[Finding], failing: Mapping[str, str]
) -> list[Finding]:
    """However a broker is found to be gone: what its producers reported before inhibits it."""
    return [
        replace(
            one,
            inhibited_by=one.inhibited_by
            or waits_under(cluster_state.incidents.get(one.key), failing.get(one.broker_name or "")),
        )
        for one in findings
    ]


def _resumed(cluster_state: ClusterState, tick: Tick, without_data: frozenset[str], missing: int) -> frozenset[str]:
    """Brokers with data now that had been missed for longer than lost rounds explain; notes that they give data."""
    resumed = set()
    for broker_name in tick.answered - without_data:
        last_ms = cluster_state.answered_ms.get(broker_name, cluster_state.no_data_ms.get(broker_name))
        if last_ms is not None and broker_name in cluster_state.no_data_ms and tick.now_ms - last_ms > missing:
            resumed.add(broker_name)
        cluster_state.answered_ms[broker_name] = tick.now_ms
    for broker_name in cluster_state.answered_ms.keys() - tick.asked - cluster_state.no_data_ms.keys():
        del cluster_state.answered_ms[broker_name]
    return frozenset(resumed)


def _give_up(cluster_state: ClusterState, now_ms: int) -> Iterator[Transition]:
    """Unheard brokers that people have retired. A dead one is never given up: that takes a decision."""
    for broker_name in filter(cluster_state.is_retired, sorted(cluster_state.gone_ms)):
        for of_brokers in (
            cluster_state.gone_ms,
            cluster_state.no_data_ms,
            cluster_state.left_ms,
            cluster_state.lost_topics,
        ):
            of_brokers.pop(broker_name, None)
        cluster_state.missed.drop(broker_name)
        incident = cluster_state.incidents.pop(f"{BROKER_NO_DATA} {broker_name}", None)
        if incident is not None:
            yield end(incident, Reason.GIVEN_UP, Evaluation(now_ms))


def _step(
    cluster_state: ClusterState, kind: str, found: Iterable[Finding], now_ms: int, share: float, rules: Rules
) -> Iterator[Transition]:
    """These tell of what is missing: they end when it gives data again, however little else is."""
    findings, evaluation = {finding.key: finding for finding in found}, Evaluation(now_ms, round(share, 4))
    return step(cluster_state.incidents, cluster_state.windows, kind, findings, evaluation, rules)


def _by_broker(cluster_state: ClusterState, kind: str, now_ms: int, rules: Rules) -> dict[str, str]:
    """Broker → its open incident of this kind, if that explains anything."""
    return {
        incident.broker_name: incident.incident_id
        for incident in cluster_state.incidents.values()
        if incident.kind == kind and incident.broker_name and explains(incident, now_ms, rules)
    }


def _explained(cluster_state: ClusterState, before: dict[str, str], now_ms: int, rules: Rules) -> dict[str, str]:
    """What brokers without data explain, and for settle_ms what those explain that just give data again."""
    open_ones = _by_broker(cluster_state, BROKER_NO_DATA, now_ms, rules)
    for broker_name in before.keys() - open_ones.keys():
        cluster_state.lingering[broker_name] = before[broker_name], now_ms + rules.settle_ms
    cluster_state.lingering = {
        broker_name: (incident_id, until_ms)
        for broker_name, (incident_id, until_ms) in sorted(cluster_state.lingering.items())
        if until_ms > now_ms and broker_name not in open_ones
    }
    return {broker_name: incident_id for broker_name, (incident_id, _) in cluster_state.lingering.items()} | open_ones
