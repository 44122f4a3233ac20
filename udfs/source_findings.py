"""What is wrong with those who tell a cluster's time: too far apart, one of several gone, or nobody at all."""

from collections.abc import Iterator

from udfs import cluster_prose
from udfs.alert import Finding
from udfs.cluster_watch import ClusterWatch
from udfs.rounds import SLOW_MS
from udfs.rules import Rules

SLOW_COLLECTOR = "slow_collector"
UNHEARD_CLUSTER = "unheard_cluster"

SLOW_ROUNDS, COLLECTOR_SILENT = "slow_rounds", "collector_silent"
NO_CLOCK, EVENTS_DROPPED = "no_clock", "events_dropped"

SURE_GAPS = 3


def find_slow_collector(watch: ClusterWatch, cluster: str, now_ms: int) -> Iterator[tuple[str, Finding]]:
    """Rule 4. A cluster's rounds are slow when they come, or are meant to come, more than 30 s apart.

    Not slow: a cluster that was away once.
    """
    slow = [source for source in watch.rounds.live(now_ms) if not source.is_own and source.interval_ms() > SLOW_MS]
    sure = [source for source in slow if len(source.gaps_ms) >= SURE_GAPS or (source.told_ms or 0) > SLOW_MS]
    interval_ms = watch.rounds.interval_ms(now_ms)
    if not sure or interval_ms <= SLOW_MS:
        return
    known = watch.incidents.get(SLOW_COLLECTOR)
    since_ms = known.started_at_ms if known else now_ms
    yield (
        SLOW_COLLECTOR,
        Finding(
            kind=SLOW_COLLECTOR,
            cause=SLOW_ROUNDS,
            severity="warning",
            since_ms=since_ms,
            text=cluster_prose.tell_slow_collector(cluster, interval_ms),
            labels={"cluster": cluster},
            evidence={"interval_ms": interval_ms, "told_ms": max(one.told_ms or 0 for one in sure) or None},
        ),
    )


def find_stopped_collectors(
    watch: ClusterWatch, cluster: str, now_ms: int, rules: Rules
) -> Iterator[tuple[str, Finding]]:
    """Rule 1, of one collector: what it alone spoke for is unheard. Not unheard: what another speaks for too."""
    for name, source in watch.rounds.stopped(now_ms).items():
        groups = watch.rounds.lost_groups(name, now_ms)
        brokers = sorted(watch.rounds.lost_brokers(name, now_ms) - watch.forgotten_ms.keys())
        if groups == [] and not brokers:
            continue
        yield (
            f"{UNHEARD_CLUSTER} {name}",
            Finding(
                kind=UNHEARD_CLUSTER,
                cause=COLLECTOR_SILENT,
                severity="error",
                since_ms=source.now_ms,
                text=cluster_prose.tell_stopped_collector(
                    cluster, name, None if groups is None else len(groups), brokers, source.now_ms
                ),
                labels={"cluster": cluster, "collector": name},
                evidence={"collector": name, "groups": groups, "brokers": brokers},
                is_missing=True,
                is_ready=now_ms >= source.now_ms + rules.unheard_page_ms,
            ),
        )


def find_no_clock(cluster: str, since_ms: int, *, has_ahead: bool) -> Finding:
    """Rule 6. A cluster has no clock when its events arrive for unheard_page_ms, or three rounds, without a tick."""
    return Finding(
        kind=UNHEARD_CLUSTER,
        cause=NO_CLOCK,
        severity="error",
        since_ms=since_ms,
        text=cluster_prose.tell_no_clock(cluster, since_ms, has_ahead=has_ahead),
        labels={"cluster": cluster},
        is_missing=True,
    )


def find_dropped(cluster: str, shard: int, dropped: int, since_ms: int, suppressed_by: str | None) -> Finding:
    """What waited for a tick for too long in one shard; the rest of its rule is in streaming/queries/waiting.py."""
    return Finding(
        kind=UNHEARD_CLUSTER,
        cause=EVENTS_DROPPED,
        severity="error",
        since_ms=since_ms,
        text=cluster_prose.tell_dropped(cluster, shard, dropped, since_ms),
        labels={"cluster": cluster, "shard": str(shard)},
        evidence={"dropped": dropped, "shard": shard},
        suppressed_by=suppressed_by,
        is_missing=True,
    )


def find_dropped_sends(cluster: str, dropped: int, since_ms: int) -> Finding:
    """What producers told and waited for a tick for too long; the rest of its rule is in udfs/waiting_sends.py."""
    return Finding(
        kind=UNHEARD_CLUSTER,
        cause=EVENTS_DROPPED,
        severity="error",
        since_ms=since_ms,
        text=cluster_prose.tell_dropped_sends(cluster, dropped, since_ms),
        labels={"cluster": cluster, "events": "sends"},
        evidence={"dropped": dropped},
        is_missing=True,
    )
