"""Brokers whose pulls nobody tells any more, though heartbeats go on: the feed is broken, not the groups.

One group that stops pulling has a reason of its own; several that stop at one broker at one time have not.
"""

from collections.abc import Iterator

from udfs.alert import Finding
from udfs.cluster_watch import ClusterWatch, Tick
from udfs.hearing import Unasked
from udfs.prose import clock, count, some
from udfs.rules import Rules
from udfs.voices import WITNESSES

PULLS_MISSING = "pulls_missing"
NO_PULLS = "no_pulls"

AT_ONCE_MS = 45_000
"""Idle queues are pulled every 15 to 20 s: groups whose newest pulls lie so close together have stopped at one time."""

SEEN_MS = 40_000
"""So long pulls must have been missing before our eyes: by a clock that is behind they are old from the first on."""


def note_mute(watch: ClusterWatch, tick: Tick, late_ms: int, rules: Rules) -> frozenset[str]:
    """Keeps since when brokers are mute; those that are told of again."""
    watch.pulls.forget()
    mute = {}
    for broker_name, of_broker in watch.pulls.heard_ms.items():
        newest_ms = max(of_broker.values())
        stopped = sum(at_ms > newest_ms - AT_ONCE_MS for at_ms in of_broker.values())
        is_silent = newest_ms + rules.pull_silence_ms <= tick.now_ms
        is_reached = (watch.voices.at(broker_name) or 0) > max(late_ms, newest_ms) and bool(
            watch.topics.get(broker_name)
        )
        if is_silent and stopped >= WITNESSES and (is_reached or watch.mute_ms.get(broker_name) == newest_ms):
            mute[broker_name] = newest_ms
    back = frozenset(watch.mute_ms.keys() - mute.keys())
    watch.mute_ms = mute
    watch.mute_at_ms = {name: watch.mute_at_ms.get(name, tick.now_ms) for name in mute}
    return back


def unasked_of(watch: ClusterWatch) -> tuple[Unasked, ...]:
    """What the groups cannot know meanwhile."""
    return tuple(Unasked(name, None, None, NO_PULLS, since_ms) for name, since_ms in sorted(watch.mute_ms.items()))


def find_mute(watch: ClusterWatch, cluster: str, now_ms: int, rules: Rules) -> Iterator[tuple[str, Finding]]:
    """Rule 6. Pulls are missing when they stop for several groups of a broker at once, while heartbeats go on.

    Of all brokers it is one thing, the cluster's. Not missing: the pulls of one group; those of groups whose caches are
    full, which pull no more before they have consumed.
    """
    is_all = len(watch.mute_ms) > 1 and watch.mute_ms.keys() >= watch.pulls.heard_ms.keys()
    if is_all:
        since_ms, seen_ms = max(watch.mute_ms.values()), max(watch.mute_at_ms.values())
        is_ready = _is_ready(since_ms, seen_ms, now_ms, rules)
        yield "unheard_cluster pulls", _finding(cluster, "", sorted(watch.mute_ms), since_ms, is_ready=is_ready)
        return
    for broker_name, since_ms in sorted(watch.mute_ms.items()):
        is_ready = _is_ready(since_ms, watch.mute_at_ms[broker_name], now_ms, rules)
        finding = _finding(cluster, broker_name, [broker_name], since_ms, is_ready=is_ready)
        yield f"unheard_broker {broker_name} pulls", finding


def _is_ready(since_ms: int, seen_ms: int, now_ms: int, rules: Rules) -> bool:
    return now_ms >= max(since_ms + rules.unheard_page_ms, seen_ms + SEEN_MS)


def _finding(cluster: str, broker_name: str, brokers: list[str], since_ms: int, *, is_ready: bool) -> Finding:
    whose = f"broker {broker_name}" if broker_name else f"{count(len(brokers), 'broker')} ({some(brokers)})"
    labels = {"cluster": cluster, "feed": "pulls", **({"broker_name": broker_name} if broker_name else {})}
    return Finding(
        kind="unheard_broker" if broker_name else "unheard_cluster",
        cause=PULLS_MISSING,
        severity="error",
        since_ms=since_ms,
        text=(
            f"No pull at {whose} of cluster {cluster} is told since {clock(since_ms)}, of no group at all, though "
            "clients go on sending heartbeats. What is consumed there is unknown, and no queue of it is called silent.",
            f"See whether what tells the pulls of {whose} runs (agent, collector) and reaches Kafka.",
        ),
        labels=labels,
        broker_name=broker_name or None,
        evidence={"brokers": brokers},
        is_missing=True,
        is_ready=is_ready,
    )
