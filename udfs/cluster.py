"""One cluster at one tick of the clock: which brokers are not heard, have no master, and what that explains.

Every shard knows the same of a cluster and concludes the same; one of them writes it down. So a broker's own alert and
what it suppresses in ten thousand groups are decided in one batch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from udfs.alert import Finding, Transition
from udfs.broker_trouble import MASTERLESS_BROKER, UNHEARD_BROKER, waits_under
from udfs.cluster_findings import (
    UNHEARD_CLUSTER,
    explains,
    find_masterless,
    find_unheard_brokers,
    find_unheard_cluster,
    open_id,
)
from udfs.cluster_watch import (
    ClusterWatch,
    Tick,
    note_nothing,
    note_retired,
    note_silent,
    note_unheard,
    retired,
)
from udfs.life import Look, Reason, end, step
from udfs.mute_brokers import find_mute, note_mute
from udfs.rounds import missing_ms, scaled
from udfs.rules import Rules
from udfs.skew_findings import step_skew
from udfs.source_findings import SLOW_COLLECTOR, find_slow_collector, find_stopped_collectors

__all__ = ["MASTERLESS_BROKER", "UNHEARD_BROKER", "UNHEARD_CLUSTER", "ClusterWatch", "Overview", "Tick", "look_over"]

NOBODY_TELLS: Mapping[str, str] = MappingProxyType({})

HEARTBEAT_MS = 30_000
"""MQClientInstance's heartbeat interval: so far apart are the newest heartbeats of a broker's clients."""


@dataclass(frozen=True)
class Overview:
    """What a tick says of the whole cluster.

    tick        what all sources that live have asked and heard
    rules       those of the cluster, for rounds as far apart as its are
    unheard     brokers whose clients and queues are not known now
    missed      those of them that were heard just now
    resumed     brokers that are heard again after they were missed for long
    silent      brokers that no client reaches, though they may answer
    explained   broker → the incident that explains what is wrong under it
    masterless  broker → the incident that explains what needs its master
    cluster_id  the open incident that explains everything, while nothing of the cluster is heard
    gap_ms      for how long nothing had arrived, at the tick that ends it
    """

    tick: Tick
    rules: Rules
    unheard: frozenset[str]
    missed: frozenset[str]
    resumed: frozenset[str]
    silent: frozenset[str]
    explained: dict[str, str]
    masterless: dict[str, str]
    cluster_id: str | None
    gap_ms: int
    transitions: list[Transition]


def look_over(
    watch: ClusterWatch, cluster: str, tick: Tick, rules: Rules, failing: Mapping[str, str] = NOBODY_TELLS
) -> Overview:
    """Judge the cluster as of this tick. `failing` are brokers to which sends fail, each with the incident that says so
    (gone_broker.failing_brokers).
    """
    now_ms = tick.now_ms
    watch.voices.forget()
    watch.rounds.note(tick)
    watch.rounds.forget(now_ms)
    interval_ms = watch.interval_ms = watch.rounds.interval_ms(now_ms)
    rules = scaled(rules, interval_ms, watch.rounds.usual_gap_ms(now_ms))
    tick = _without_forgotten(watch, watch.rounds.together(now_ms))
    late_ms = now_ms - max(rules.heartbeat_late_ms - HEARTBEAT_MS, HEARTBEAT_MS, interval_ms + 10_000)
    nothing_ms = watch.nothing_ms
    gap_ms = note_nothing(watch, tick, late_ms)
    if nothing_ms is not None and gap_ms <= now_ms - late_ms + rules.unheard_ms:
        gap_ms = 0  # it was late, not away
    unheard = tick.asked if watch.nothing_ms is not None else tick.asked - tick.answered
    resumed = _resumed(watch, tick, unheard, missing_ms(rules, interval_ms))
    note_unheard(watch, tick, unheard)
    watch.missed.note(now_ms, tick.asked, unheard, interval_ms)
    resumed |= note_silent(watch, tick, late_ms, unheard)
    resumed |= note_mute(watch, tick, late_ms, rules)
    note_retired(watch, tick, tick.answered - unheard)
    share = len(tick.asked - unheard) / len(tick.asked) if tick.asked else 1.0
    is_one = len(unheard) == 1 < len(tick.asked)
    if share >= rules.completeness_min or is_one:
        watch.below_ms = None
    elif watch.below_ms is None:
        watch.below_ms = now_ms if watch.nothing_ms is None else watch.nothing_ms
    of_cluster = dict(find_unheard_cluster(watch, cluster, tick, unheard, rules))
    mute = dict(find_mute(watch, cluster, now_ms, rules))
    of_cluster |= {key: one for key, one in mute.items() if one.kind == UNHEARD_CLUSTER}
    of_cluster |= find_stopped_collectors(watch, cluster, now_ms, rules)
    transitions = list(_step(watch, UNHEARD_CLUSTER, of_cluster, now_ms, share, rules))
    transitions += _give_up(watch, now_ms)
    cluster_id = open_id(watch, UNHEARD_CLUSTER, now_ms, rules)
    before = _by_broker(watch, UNHEARD_BROKER, now_ms, rules)
    of_brokers = dict(find_unheard_brokers(watch, cluster, cluster_id, now_ms, rules))
    of_brokers |= {key: one for key, one in mute.items() if one.kind == UNHEARD_BROKER}
    of_brokers = _after_producers(watch, of_brokers, failing)
    transitions += _step(watch, UNHEARD_BROKER, of_brokers, now_ms, share, rules)
    masterless = _after_producers(watch, dict(find_masterless(watch, cluster, now_ms, rules)), failing)
    transitions += _step(watch, MASTERLESS_BROKER, masterless, now_ms, share, rules)
    slow = dict(find_slow_collector(watch, cluster, now_ms))
    transitions += _step(watch, SLOW_COLLECTOR, slow, now_ms, share, rules)
    transitions += step_skew(watch, cluster, now_ms, rules)
    is_dark = bool(tick.asked) and unheard == tick.asked
    all_unheard = frozenset(unheard | watch.unheard_ms.keys())
    return Overview(
        tick,
        rules,
        all_unheard,
        _just_missed(watch, all_unheard, now_ms - missing_ms(rules, interval_ms)),
        resumed,
        frozenset(watch.silent_ms),
        _explained(watch, before, now_ms, rules),
        _by_broker(watch, MASTERLESS_BROKER, now_ms, rules),
        cluster_id if is_dark else None,
        gap_ms,
        transitions,
    )


def _after_producers(
    watch: ClusterWatch, findings: Mapping[str, Finding], failing: Mapping[str, str]
) -> dict[str, Finding]:
    """However a broker is found to be gone: what its producers told before stands above it."""
    return {
        key: replace(
            one,
            suppressed_by=one.suppressed_by
            or waits_under(watch.incidents.get(key), failing.get(one.broker_name or "")),
        )
        for key, one in findings.items()
    }


def _without_forgotten(watch: ClusterWatch, tick: Tick) -> Tick:
    """What a person took for gone is not missed; a broker that really answers is no longer forgotten."""
    if not watch.forgotten_ms:
        return tick
    if not tick.is_own:
        for broker_name in tick.answered & watch.forgotten_ms.keys():
            del watch.forgotten_ms[broker_name]
    forgotten = watch.forgotten_ms.keys()
    return replace(tick, asked=tick.asked - forgotten, answered=tick.answered - forgotten)


def _resumed(watch: ClusterWatch, tick: Tick, unheard: frozenset[str], missing: int) -> frozenset[str]:
    """Brokers heard now that had been missed for longer than lost rounds explain; notes that they are heard."""
    resumed = set()
    for broker_name in tick.answered - unheard:
        last_ms = watch.answered_ms.get(broker_name, watch.unheard_ms.get(broker_name))
        if last_ms is not None and broker_name in watch.unheard_ms and tick.now_ms - last_ms > missing:
            resumed.add(broker_name)
        watch.answered_ms[broker_name] = tick.now_ms
    for broker_name in watch.answered_ms.keys() - tick.asked - watch.unheard_ms.keys():
        del watch.answered_ms[broker_name]
    return frozenset(resumed)


def _just_missed(watch: ClusterWatch, unheard: frozenset[str], since_ms: int) -> frozenset[str]:
    """Of these brokers those that were heard after `since_ms`."""
    return frozenset(name for name in unheard if watch.answered_ms.get(name, 0) > since_ms)


def _give_up(watch: ClusterWatch, now_ms: int) -> Iterator[Transition]:
    """Unheard brokers that people have retired. A dead one is never given up: that takes a decision."""
    for broker_name in list(retired(watch)):
        for of_brokers in (watch.gone_ms, watch.unheard_ms, watch.left_ms, watch.lost_topics):
            of_brokers.pop(broker_name, None)
        watch.missed.drop(broker_name)
        incident = watch.incidents.pop(f"{UNHEARD_BROKER} {broker_name}", None)
        if incident is not None:
            yield end(incident, Reason.GIVEN_UP, Look(now_ms))


def _step(
    watch: ClusterWatch, kind: str, findings: dict[str, Finding], now_ms: int, share: float, rules: Rules
) -> Iterator[Transition]:
    """These tell of what is missing: they end when it is heard again, however little else is."""
    return step(watch.incidents, watch.windows, kind, findings, lambda _: Look(now_ms, round(share, 4)), rules)


def _by_broker(watch: ClusterWatch, kind: str, now_ms: int, rules: Rules) -> dict[str, str]:
    """Broker → its open incident of this kind, if that explains anything."""
    return {
        incident.broker_name: incident.incident_id
        for incident in watch.incidents.values()
        if incident.kind == kind and incident.broker_name and explains(incident, now_ms, rules)
    }


def _explained(watch: ClusterWatch, before: dict[str, str], now_ms: int, rules: Rules) -> dict[str, str]:
    """What unheard brokers explain, and for settle_ms what those explain that are just heard again."""
    open_ones = _by_broker(watch, UNHEARD_BROKER, now_ms, rules)
    for broker_name in before.keys() - open_ones.keys():
        watch.lingering[broker_name] = before[broker_name], now_ms + rules.settle_ms
    watch.lingering = {
        broker_name: (incident_id, until_ms)
        for broker_name, (incident_id, until_ms) in sorted(watch.lingering.items())
        if until_ms > now_ms and broker_name not in open_ones
    }
    return {broker_name: incident_id for broker_name, (incident_id, _) in watch.lingering.items()} | open_ones
