"""What is wrong with those who tell a cluster's time: too far apart, one of several gone, or nobody at all."""

from collections.abc import Iterator

from udfs.alerts.alert import Finding
from udfs.alerts.rules import Rules
from udfs.brokers import cluster_prose
from udfs.brokers.cluster_state import ClusterState
from udfs.brokers.rounds import SLOW_MS

SLOW_COLLECTOR = "slow_collector"
CLUSTER_NO_DATA = "cluster_no_data"

SLOW_ROUNDS, COLLECTOR_SILENT = "slow_rounds", "collector_silent"
NO_CLOCK, EVENTS_DROPPED = "no_clock", "events_dropped"

SURE_GAPS = 3


def find_slow_collector(cluster_state: ClusterState, cluster: str, now_ms: int) -> Iterator[tuple[str, Finding]]:
    """Kind 18. A cluster's rounds are slow when they come, or are meant to come, more than 30 s apart.

    Not slow: a cluster that was away once.
    """
    slow = [
        source for source in cluster_state.rounds.live(now_ms) if not source.is_own and source.interval_ms() > SLOW_MS
    ]
    sure = [source for source in slow if len(source.gaps_ms) >= SURE_GAPS or (source.reported_ms or 0) > SLOW_MS]
    interval_ms = cluster_state.rounds.interval_ms(now_ms)
    if not sure or interval_ms <= SLOW_MS:
        return
    known = cluster_state.incidents.get(SLOW_COLLECTOR)
    since_ms = known.started_at_ms if known else now_ms
    yield (
        SLOW_COLLECTOR,
        Finding(
            kind=SLOW_COLLECTOR,
            cause=SLOW_ROUNDS,
            severity="warning",
            since_ms=since_ms,
            text=cluster_prose.describe_slow_collector(cluster, interval_ms),
            labels={"cluster": cluster},
            evidence={"interval_ms": interval_ms, "told_ms": max(one.reported_ms or 0 for one in sure) or None},
        ),
    )


def find_stopped_collectors(
    cluster_state: ClusterState, cluster: str, now_ms: int, rules: Rules
) -> Iterator[tuple[str, Finding]]:
    """Kind 15, of one collector: what it alone spoke for gives no data.

    Not without data: what another collector speaks for too; a broker that left service; a group that a person forgot.
    Silence counts while another collector continues, and not in a gap of all of them.
    """
    for name, source in cluster_state.rounds.stopped(now_ms).items():
        silent_ms = cluster_state.rounds.silent_since_ms(name)
        if now_ms <= silent_ms + source.lifetime_ms():
            continue
        groups = cluster_state.rounds.lost_groups(name, now_ms)
        brokers = sorted(cluster_state.rounds.lost_brokers(name, now_ms) - cluster_state.forgotten_ms.keys())
        if groups == [] and not brokers:
            continue
        yield (
            f"{CLUSTER_NO_DATA} {name}",
            Finding(
                kind=CLUSTER_NO_DATA,
                cause=COLLECTOR_SILENT,
                severity="error",
                since_ms=source.now_ms,
                text=cluster_prose.describe_stopped_collector(
                    cluster, name, None if groups is None else len(groups), brokers, source.now_ms
                ),
                labels={"cluster": cluster, "collector": name},
                evidence={"collector": name, "groups": groups, "brokers": brokers},
                is_missing=True,
                is_ready=now_ms >= silent_ms + rules.no_data_page_ms,
            ),
        )


def find_no_clock(cluster: str, since_ms: int, *, has_ahead: bool) -> Finding:
    """Kind 15, cause no_clock. A cluster has no clock when its events arrive for no_data_page_ms, or three rounds,
    without a tick.
    """
    return Finding(
        kind=CLUSTER_NO_DATA,
        cause=NO_CLOCK,
        severity="error",
        since_ms=since_ms,
        text=cluster_prose.describe_no_clock(cluster, since_ms, has_ahead=has_ahead),
        labels={"cluster": cluster},
        is_missing=True,
    )


def find_dropped(cluster: str, shard: int, dropped: int, since_ms: int, inhibited_by: str | None) -> Finding:
    """What waited for a tick for too long in one shard; the rest of its rule is in streaming/queries/waiting.py."""
    return Finding(
        kind=CLUSTER_NO_DATA,
        cause=EVENTS_DROPPED,
        severity="error",
        since_ms=since_ms,
        text=cluster_prose.describe_dropped(cluster, shard, dropped, since_ms),
        labels={"cluster": cluster, "shard": str(shard)},
        evidence={"dropped": dropped, "shard": shard},
        inhibited_by=inhibited_by,
        is_missing=True,
    )


def find_dropped_sends(cluster: str, dropped: int, since_ms: int) -> Finding:
    """What producers told and waited for a tick for too long; the rest of its rule: udfs.producers.waiting_sends."""
    return Finding(
        kind=CLUSTER_NO_DATA,
        cause=EVENTS_DROPPED,
        severity="error",
        since_ms=since_ms,
        text=cluster_prose.describe_dropped_sends(cluster, dropped, since_ms),
        labels={"cluster": cluster, "events": "sends"},
        evidence={"dropped": dropped},
        is_missing=True,
    )
