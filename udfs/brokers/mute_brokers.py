"""Brokers whose pulls are reported no more although heartbeats arrive: the feed is broken, not the groups.

A group, or a process, that stops pulling has a reason of its own. Several groups of several processes that stop at one
broker at one time have not, unless their heartbeats stop too, or the broker's committed offsets are still reported.
"""

from collections.abc import Iterator
from typing import NamedTuple

from udfs.alerts.alert import Finding, wording
from udfs.alerts.phrase import phrase, some_of
from udfs.alerts.prose import clock, number_of
from udfs.alerts.rules import Rules
from udfs.brokers.broker_coverage import NO_PULLS, Unasked
from udfs.brokers.cluster_state import ClusterState
from udfs.brokers.heartbeat_sample import WITNESSES
from udfs.brokers.rounds import Tick
from udfs.rocketmq.membership import process_of

PULLS_MISSING = "pulls_missing"

AT_ONCE_MS = 45_000
"""Idle queues are pulled each 15 to 20 s: clients whose newest pulls lie this close together have stopped at once."""

SEEN_MS = 40_000
"""How long pulls must be missing while the monitor runs: a clock that is behind makes them look old from the start."""


HELD_BACK = "\n"
"""The pair of all clients whose caches are full: no witness, and yet the broker's newest pull may be theirs."""


class SampledHeartbeat(NamedTuple):
    """A client sent a heartbeat to a broker, or unregistered there.

    `groups` are its groups with a family, `ingest_time_ms` is Kafka's time of the message.
    """

    cluster: str
    broker_name: str
    client_id: str
    event_time_ms: int
    is_leaving: bool
    groups: tuple[str, ...] = ()
    ingest_time_ms: int = 0
    client_addr: str = ""


class Pulling(NamedTuple):
    """A client pulled for a group at a broker.

    `client` is its ClientId, else its address; "" if only the committed offsets were reported. `is_held_back`: its
    cache is full, so no further pull is due. `is_by_broker`: no client's pull, but the first or the newest of a few
    seconds that the broker itself reported.
    """

    cluster: str
    broker_name: str
    consumer_group: str
    client: str
    event_time_ms: int
    ingest_time_ms: int = 0
    is_held_back: bool = False
    is_by_broker: bool = False


def puller_key(consumer_group: str, client: str) -> str:
    """Return the name of a pair in `ClusterState.pulls`."""
    return f"{consumer_group}\n{client}"


def note_pulling(cluster_state: ClusterState, pulling: Pulling) -> None:
    """Keep the newest pull of the pair, or the newest report of the broker's offsets."""
    if not pulling.client:
        cluster_state.offsets_ms[pulling.broker_name] = pulling.event_time_ms
        return
    key = puller_key(pulling.consumer_group, pulling.client)
    if pulling.is_held_back:
        cluster_state.pulls.leave(pulling.broker_name, key)
        cluster_state.pulls.note(pulling.broker_name, HELD_BACK, pulling.event_time_ms)
        return
    cluster_state.pulls.note(pulling.broker_name, key, pulling.event_time_ms)
    if key in cluster_state.pulls.newest_ms:
        cluster_state.puller_heartbeats.setdefault(pulling.client, (0, ""))


def note_puller_heartbeat(cluster_state: ClusterState, heartbeat: SampledHeartbeat) -> None:
    """Keep the heartbeat of a client whose pulls are in the sample; pulls may name only its address."""
    for client in (heartbeat.client_id, heartbeat.client_addr):
        if client in cluster_state.puller_heartbeats:
            process = process_of(heartbeat.client_id, heartbeat.client_addr)
            time_ms = 0 if heartbeat.is_leaving else heartbeat.event_time_ms
            cluster_state.puller_heartbeats[client] = time_ms, process


def note_mute(cluster_state: ClusterState, tick: Tick, late_ms: int, rules: Rules) -> frozenset[str]:
    """Keep since when brokers are mute. Returns those whose pulls are reported again."""
    cluster_state.pulls.forget()
    clients = {key.partition("\n")[2] for key in cluster_state.pulls.newest_ms}
    heartbeats = {client: at for client, at in cluster_state.puller_heartbeats.items() if client in clients}
    cluster_state.puller_heartbeats = heartbeats
    stopped = dict(_stopped(cluster_state, late_ms, tick.now_ms - rules.pull_silence_ms))
    witnesses = {name: set(_witnesses(cluster_state, name, late_ms)) for name in stopped}
    is_everywhere = (
        stopped.keys() == cluster_state.pulls.heard_ms.keys()
        and max(stopped.values(), default=0) - min(stopped.values(), default=0) < AT_ONCE_MS
    )
    everybody = set().union(*witnesses.values()) if is_everywhere else set()
    mute = {
        broker_name: newest_ms
        for broker_name, newest_ms in stopped.items()
        if cluster_state.mute_ms.get(broker_name) == newest_ms or _are_several(witnesses[broker_name] | everybody)
    }
    back = frozenset(cluster_state.mute_ms.keys() - mute.keys())
    cluster_state.mute_ms = mute
    cluster_state.mute_at_ms = {name: cluster_state.mute_at_ms.get(name, tick.now_ms) for name in mute}
    return back


def _witnesses(cluster_state: ClusterState, broker_name: str, late_ms: int) -> Iterator[tuple[str, str]]:
    """Yield (group, process) of each pair that stopped with the broker's last and whose heartbeats continue."""
    of_broker = cluster_state.pulls.heard_ms[broker_name]
    newest_ms = max(of_broker.values())
    for key, pulled_ms in of_broker.items():
        group, _, client = key.partition("\n")
        heartbeat_ms, process = cluster_state.puller_heartbeats.get(client, (0, ""))
        if pulled_ms > newest_ms - AT_ONCE_MS and heartbeat_ms > max(late_ms, newest_ms):
            yield group, process


def _are_several(witnesses: set[tuple[str, str]]) -> bool:
    groups, processes = {group for group, _ in witnesses}, {process for _, process in witnesses}
    return len(groups) >= WITNESSES and len(processes) >= WITNESSES


def _stopped(
    cluster_state: ClusterState, late_ms: int, silent_ms: int, *, is_reported: bool = False
) -> Iterator[tuple[str, int]]:
    """Yield each broker whose newest pull is of `silent_ms` or before, with that pull, though heartbeats arrive there.

    Left out: a broker without a master, for a slave may refuse every pull. `is_reported`: yield the brokers whose
    committed offsets are reported, or the others.
    """
    for broker_name, of_broker in cluster_state.pulls.heard_ms.items():
        newest_ms = max(of_broker.values())
        heartbeat_ms = cluster_state.heartbeat_sample.at(broker_name) or 0
        is_known = cluster_state.mute_ms.get(broker_name) == newest_ms
        is_reached = bool(cluster_state.topics.get(broker_name)) and heartbeat_ms > max(late_ms, newest_ms)
        has_offsets = cluster_state.offsets_ms.get(broker_name, 0) > newest_ms
        has_master = broker_name not in cluster_state.without_master_ms
        if newest_ms <= silent_ms and (is_known or is_reached) and has_master and has_offsets == is_reported:
            yield broker_name, newest_ms


def find_unserved(cluster_state: ClusterState, late_ms: int, silent_ms: int) -> Iterator[str]:
    """Yield each broker that serves no pull: the pulls of several groups and processes stopped there at once, while
    their heartbeats and the broker's committed offsets arrive.
    """
    for broker_name, _ in _stopped(cluster_state, late_ms, silent_ms, is_reported=True):
        if _are_several(set(_witnesses(cluster_state, broker_name, late_ms))):
            yield broker_name


def unasked_of(cluster_state: ClusterState) -> tuple[Unasked, ...]:
    return tuple(
        Unasked(name, None, None, NO_PULLS, since_ms) for name, since_ms in sorted(cluster_state.mute_ms.items())
    )


def find_mute(cluster_state: ClusterState, cluster: str, now_ms: int, rules: Rules) -> Iterator[Finding]:
    """Kind 16, by pulls. Pulls are missing when they stop for several groups and processes at a broker at once, while
    the heartbeats of these processes continue and the broker's offsets are not reported either.

    If all brokers are concerned, the finding is the cluster's. Not missing: the pulls of one group, or of one process,
    whatever number of groups it serves; those of clients whose caches are full; those of a broker without a master.
    """
    mute_ms = cluster_state.mute_ms
    is_all = len(mute_ms) > 1 and mute_ms.keys() >= cluster_state.pulls.heard_ms.keys()
    for brokers in [sorted(mute_ms)] if is_all else [[broker_name] for broker_name in sorted(mute_ms)]:
        broker_name = None if is_all else brokers[0]
        since_ms = max(mute_ms[name] for name in brokers)
        seen_ms = max(cluster_state.mute_at_ms[name] for name in brokers)
        where = phrase("{number} ({brokers})", number=number_of(len(brokers), "broker"), brokers=some_of(brokers))
        where = phrase("broker {broker_name}", broker_name=broker_name) if broker_name else where
        yield Finding(
            kind="broker_no_data" if broker_name else "cluster_no_data",
            cause=PULLS_MISSING,
            severity="error",
            since_ms=since_ms,
            text=wording(
                "No pull at {brokers} of cluster {cluster} has been reported since {time}, although clients "
                "continue to send heartbeats. Consumption there is unknown, so no queue is reported as stalled.",
                "Check that the source of the pull events of {brokers} (agent, collector) runs and reaches Kafka.",
            ).given(brokers=where, cluster=cluster, time=clock(since_ms)),
            labels={"cluster": cluster, **({"broker_name": broker_name} if broker_name else {}), "feed": "pulls"},
            broker_name=broker_name,
            evidence={"brokers": brokers},
            is_missing=True,
            is_ready=now_ms >= max(since_ms + rules.no_data_page_ms, seen_ms + SEEN_MS),
        )
