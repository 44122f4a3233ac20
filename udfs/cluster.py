"""One cluster at one tick of the clock: which brokers are not heard, have no master, and what that explains.

Every shard knows the same of a cluster and concludes the same; one of them writes it down. So a broker's own alert and
what it suppresses in ten thousand groups are decided in one batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from udfs.alert import Finding, Transition
from udfs.cluster_findings import (
    MASTERLESS_BROKER,
    UNHEARD_BROKER,
    UNHEARD_CLUSTER,
    find_masterless,
    find_unheard_brokers,
    find_unheard_cluster,
    open_id,
)
from udfs.cluster_watch import ClusterWatch, Tick, note_nothing, note_silent, note_unheard
from udfs.findings.brokers import REMEMBERED_MS
from udfs.life import Look, Reason, end, step
from udfs.rules import Rules

__all__ = ["MASTERLESS_BROKER", "UNHEARD_BROKER", "UNHEARD_CLUSTER", "ClusterWatch", "Overview", "Tick", "look_over"]

GIVEN_UP_MS = 86_400_000
"""One that a route still names, and nobody asks: a route outlives its brokers at some collectors."""

HEARTBEAT_MS = 30_000
"""MQClientInstance's heartbeat interval: so far apart are the newest heartbeats of a broker's clients."""


@dataclass(frozen=True)
class Overview:
    """What a tick says of the whole cluster.

    unheard     brokers whose clients and queues are not known now
    silent      brokers that no client reaches, though they may answer
    explained   broker → the incident that explains what is wrong under it
    masterless  broker → the incident that explains what needs its master
    cluster_id  the open incident that explains everything, while nothing of the cluster is heard
    gap_ms      for how long nothing had arrived, at the tick that ends it
    """

    unheard: frozenset[str]
    silent: frozenset[str]
    explained: dict[str, str]
    masterless: dict[str, str]
    cluster_id: str | None
    gap_ms: int
    transitions: list[Transition]


def look_over(watch: ClusterWatch, cluster: str, tick: Tick, rules: Rules) -> Overview:
    """Judge the cluster as of this tick."""
    now_ms = tick.now_ms
    watch.voices.forget()
    late_ms = now_ms - max(rules.heartbeat_late_ms - HEARTBEAT_MS, HEARTBEAT_MS)
    gap_ms = note_nothing(watch, tick, late_ms)
    unheard = tick.asked if watch.nothing_ms is not None else tick.asked - tick.answered
    note_unheard(watch, tick, unheard)
    note_silent(watch, late_ms)
    share = len(tick.asked - unheard) / len(tick.asked) if tick.asked else 1.0
    is_one = len(unheard) == 1 < len(tick.asked)
    if share >= rules.completeness_min or is_one:
        watch.below_ms = None
    elif watch.below_ms is None:
        watch.below_ms = now_ms if watch.nothing_ms is None else watch.nothing_ms
    of_cluster = dict(find_unheard_cluster(watch, cluster, tick, unheard, rules))
    transitions = list(_step(watch, UNHEARD_CLUSTER, of_cluster, now_ms, share, rules))
    transitions += _give_up(watch, now_ms)
    cluster_id = open_id(watch, UNHEARD_CLUSTER, rules)
    before = _by_broker(watch, UNHEARD_BROKER, rules)
    of_brokers = dict(find_unheard_brokers(watch, cluster, cluster_id, now_ms, rules))
    transitions += _step(watch, UNHEARD_BROKER, of_brokers, now_ms, share, rules)
    masterless = dict(find_masterless(watch, cluster, now_ms, rules))
    transitions += _step(watch, MASTERLESS_BROKER, masterless, now_ms, share, rules)
    is_dark = bool(tick.asked) and unheard == tick.asked
    return Overview(
        frozenset(unheard | watch.unheard_ms.keys()),
        frozenset(watch.silent_ms),
        _explained(watch, before, now_ms, rules),
        _by_broker(watch, MASTERLESS_BROKER, rules),
        cluster_id if is_dark else None,
        gap_ms,
        transitions,
    )


def _give_up(watch: ClusterWatch, now_ms: int) -> Iterator[Transition]:
    """Unheard brokers that left routes and questions long ago."""
    for broker_name, since_ms in list(watch.gone_ms.items()):
        if now_ms >= since_ms + (GIVEN_UP_MS if watch.topics.get(broker_name) else REMEMBERED_MS):
            del watch.gone_ms[broker_name]
            watch.unheard_ms.pop(broker_name, None)
            incident = watch.incidents.pop(f"{UNHEARD_BROKER} {broker_name}", None)
            if incident is not None:
                yield end(incident, Reason.GIVEN_UP, Look(now_ms))


def _step(
    watch: ClusterWatch, kind: str, findings: dict[str, Finding], now_ms: int, share: float, rules: Rules
) -> Iterator[Transition]:
    """These tell of what is missing: they end when it is heard again, however little else is."""
    return step(watch.incidents, watch.windows, kind, findings, lambda _: Look(now_ms, round(share, 4)), rules)


def _by_broker(watch: ClusterWatch, kind: str, rules: Rules) -> dict[str, str]:
    """Broker → its open incident of this kind."""
    if not rules.of_kind(kind).is_enabled:
        return {}
    return {
        incident.broker_name: incident.incident_id
        for incident in watch.incidents.values()
        if incident.kind == kind and incident.broker_name
    }


def _explained(watch: ClusterWatch, before: dict[str, str], now_ms: int, rules: Rules) -> dict[str, str]:
    """What unheard brokers explain, and for settle_ms what those explain that are just heard again."""
    open_ones = _by_broker(watch, UNHEARD_BROKER, rules)
    for broker_name in before.keys() - open_ones.keys():
        watch.lingering[broker_name] = before[broker_name], now_ms + rules.settle_ms
    watch.lingering = {
        broker_name: (incident_id, until_ms)
        for broker_name, (incident_id, until_ms) in sorted(watch.lingering.items())
        if until_ms > now_ms and broker_name not in open_ones
    }
    return {broker_name: incident_id for broker_name, (incident_id, _) in watch.lingering.items()} | open_ones
