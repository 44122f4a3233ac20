"""Brokers whose pulls nobody tells any more, though heartbeats go on: the feed is broken, not the groups.

One group that stops pulling has a reason of its own; several that stop at one broker at one time have not.
"""

from collections.abc import Iterator

from udfs.alerts.alert import Finding, Text
from udfs.alerts.prose import clock, count, some
from udfs.alerts.rules import Rules
from udfs.brokers.broker_coverage import Unasked
from udfs.brokers.cluster_state import ClusterState, Tick
from udfs.brokers.heartbeat_sample import WITNESSES

PULLS_MISSING = "pulls_missing"
NO_PULLS = "no_pulls"

AT_ONCE_MS = 45_000
"""Idle queues are pulled every 15 to 20 s: groups whose newest pulls lie so close together have stopped at one time."""

SEEN_MS = 40_000
"""So long pulls must have been missing before our eyes: by a clock that is behind they are old from the first on."""


def note_mute(cluster_state: ClusterState, tick: Tick, late_ms: int, rules: Rules) -> frozenset[str]:
    """Keeps since when brokers are mute; those that are told of again."""
    cluster_state.pulls.forget()
    mute = {}
    for broker_name, of_broker in cluster_state.pulls.heard_ms.items():
        if broker_name in cluster_state.without_master_ms:
            continue  # a slave may refuse every pull
        newest_ms = max(of_broker.values())
        stopped = sum(at_ms > newest_ms - AT_ONCE_MS for at_ms in of_broker.values())
        is_silent = newest_ms + rules.pull_silence_ms <= tick.now_ms
        is_reached = (cluster_state.heartbeat_sample.at(broker_name) or 0) > max(late_ms, newest_ms) and bool(
            cluster_state.topics.get(broker_name)
        )
        if is_silent and stopped >= WITNESSES and (is_reached or cluster_state.mute_ms.get(broker_name) == newest_ms):
            mute[broker_name] = newest_ms
    back = frozenset(cluster_state.mute_ms.keys() - mute.keys())
    cluster_state.mute_ms = mute
    cluster_state.mute_at_ms = {name: cluster_state.mute_at_ms.get(name, tick.now_ms) for name in mute}
    return back


def unasked_of(cluster_state: ClusterState) -> tuple[Unasked, ...]:
    """What the groups cannot know meanwhile."""
    return tuple(
        Unasked(name, None, None, NO_PULLS, since_ms) for name, since_ms in sorted(cluster_state.mute_ms.items())
    )


def find_mute(cluster_state: ClusterState, cluster: str, now_ms: int, rules: Rules) -> Iterator[tuple[str, Finding]]:
    """Kind 16, by pulls. Pulls are missing when they stop for several groups of a broker at once, while heartbeats go
    on.

    Of all brokers it is one thing, the cluster's. Not missing: the pulls of one group; those of groups whose caches are
    full, which pull no more before they have consumed; those of a broker without a master, whose slaves may refuse all.
    """
    is_all = len(cluster_state.mute_ms) > 1 and cluster_state.mute_ms.keys() >= cluster_state.pulls.heard_ms.keys()
    if is_all:
        since_ms, seen_ms = max(cluster_state.mute_ms.values()), max(cluster_state.mute_at_ms.values())
        is_ready = _is_ready(since_ms, seen_ms, now_ms, rules)
        yield "cluster_no_data pulls", _finding(cluster, "", sorted(cluster_state.mute_ms), since_ms, is_ready=is_ready)
        return
    for broker_name, since_ms in sorted(cluster_state.mute_ms.items()):
        is_ready = _is_ready(since_ms, cluster_state.mute_at_ms[broker_name], now_ms, rules)
        finding = _finding(cluster, broker_name, [broker_name], since_ms, is_ready=is_ready)
        yield f"broker_no_data {broker_name} pulls", finding


def _is_ready(since_ms: int, seen_ms: int, now_ms: int, rules: Rules) -> bool:
    return now_ms >= max(since_ms + rules.no_data_page_ms, seen_ms + SEEN_MS)


def _finding(cluster: str, broker_name: str, brokers: list[str], since_ms: int, *, is_ready: bool) -> Finding:
    whose = f"broker {broker_name}" if broker_name else f"{count(len(brokers), 'broker')} ({some(brokers)})"
    labels = {"cluster": cluster, "feed": "pulls", **({"broker_name": broker_name} if broker_name else {})}
    return Finding(
        kind="broker_no_data" if broker_name else "cluster_no_data",
        cause=PULLS_MISSING,
        severity="error",
        since_ms=since_ms,
        text=Text(
            f"No pull at {whose} of cluster {cluster} is reported since {clock(since_ms)}, of no group at all, though "
            "clients go on sending heartbeats. What is consumed there is unknown, and none of it is called stalled.",
            f"See whether what reports the pulls of {whose} runs (agent, collector) and reaches Kafka.",
        ),
        labels=labels,
        broker_name=broker_name or None,
        evidence={"brokers": brokers},
        is_missing=True,
        is_ready=is_ready,
    )
