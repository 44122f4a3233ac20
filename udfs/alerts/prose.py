"""Summaries and advice, as a colleague would say them: what, where, since when, why, what to do."""

from collections.abc import Mapping, Sequence

from udfs.alerts.alert import Text
from udfs.rocketmq.model import queue_order
from udfs.rocketmq.own_names import REVIVE_GROUP

ADVICE = {
    "duplicate_client_id": "End the duplicate ClientId {client_id}: give each process its own instanceName.",
    "member_not_subscribed": (
        "Every member of a group must subscribe the same topics: add the subscription to {client_id}, or give it a "
        "group of its own."
    ),
    "consume_disabled": (
        "Enable it again if nobody meant it: "
        "mqadmin updateSubGroup -c {cluster} -g {consumer_group} -s true -m true -d true."
    ),
    "mixed_strategy": (
        "Give all members of {consumer_group} one AllocateMessageQueueStrategy and one SDK, then restart those that "
        "differ."
    ),
    "strategy_gap": (
        "Look at the strategy's own options: every broker room needs a consumer (consumeridcs), every queue a place "
        "in a configured list."
    ),
    "write_only_queue": (
        "Let consumers have them: mqadmin updateTopic -t {topic} with as many readQueueNums (-r) as writeQueueNums (-w)"
        " and permission 6 (-p 6)."
    ),
    "split_view": "Check the network between {client_id} on {host} and the brokers that do not list it, or restart it.",
    "stale_route": "Restart {client_id} on {host}: it still works from the route as it was before it changed.",
    "order_lock": (
        "If the broker has no master, bring it back: locks are granted there only. Otherwise find who held these "
        "queues before {client_id} and restart it; a lock is free 60 s after its holder is gone."
    ),
    "frozen_client": "Look at {client_id} on {host} (full GC, swapped out, suspended, cut off?) and restart it.",
    "consume_stopped": (
        "Take a jstack of {client_id} on {host} (mqadmin consumerStatus -g {consumer_group} -i {client_id} -s): end "
        "what its listener waits for, or resume() it if it was suspended; then restart it."
    ),
    "pull_stopped": (
        "resume() {client_id} on {host} if it was suspended; else take its jstack and restart it: its rebalance takes "
        "the queues anew."
    ),
    "group_offline": "Start a consumer of group {consumer_group}.",
}
"""Cause to the one line that fixes it."""

WHY = {
    "duplicate_client_id": "several clients carry ClientId {client_id}, and each takes the first one's share",
    "member_not_subscribed": "{client_id} counts as a member and is given them, but does not subscribe the topic",
    "consume_disabled": "the broker refuses the group's pulls, its consumeEnable is false",
    "mixed_strategy": "the members do not share out by one strategy{strategies}, and none takes these",
    "strategy_gap": "the group's allocation strategy{strategies} gives them to no member",
    "write_only_queue": "producers write them, but the route gives consumers no access",
    "split_view": "the brokers list different members, and {client_id} at {client_addr} works from another list",
    "stale_route": "{client_id} at {client_addr} works from the topic's route as it was before it changed",
    "order_lock": "{client_id} at {client_addr} consumes in order and has not won the locks of these queues",
    "frozen_client": "{client_id} at {client_addr} is still listed, but neither heartbeats nor pulls",
    "consume_stopped": (
        "the committed offset stands still{came}: {client_id} at {client_addr} holds them and consumes nothing (its "
        "listener hangs, it is suspended, or its cache is full)"
    ),
    "pull_stopped": "{client_id} at {client_addr} sends heartbeats, but has stopped pulling them",
    "group_offline": "the group has no member left",
}
"""Cause to the reason as the summary gives it."""

COMMITS_STOPPED = Text(
    "the committed offset stands still{came}: no member of the group takes more of their messages (listeners hang, or "
    "hold messages without acknowledging them)",
    "Take a jstack of each consumer of {consumer_group}, end what its listener waits for, and restart it. Of an "
    "application that calls receive() itself, check that it still does.",
)
"""Reason and advice of consume_stopped where queues have no owner: POP, gRPC, server-side rebalance, assign()."""

REVIVE_STOPPED = Text(
    "the committed offset stands still{came}: the PopReviveService of the broker has stopped",
    "Search the broker's pop.log for PopReviveService, and check its disk and timerWheelEnable; restart the broker. "
    "Until then POP and gRPC consumers do not get unacknowledged messages again.",
)
"""The same of the broker's own revive log."""


def clock(time_ms: int) -> str:
    """`03:12:05 UTC`."""
    seconds = time_ms // 1000
    return f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"


def name_queues(queues: Sequence[str]) -> str:
    """`broker-a:0-3,5 and broker-b:1`: runs of queue numbers a broker."""
    runs: dict[str, list[list[int]]] = {}
    for broker_name, queue_id in sorted(queue_order(queue) for queue in queues):
        of_broker = runs.setdefault(broker_name, [])
        if of_broker and of_broker[-1][1] == queue_id - 1:
            of_broker[-1][1] = queue_id
        else:
            of_broker.append([queue_id, queue_id])
    return join_words(
        [
            f"{broker_name}:" + ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
            for broker_name, spans in runs.items()
        ]
    )


def join_words(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def some(words: Sequence[str], limit: int = 4) -> str:
    """`a, b, c, d and 9 more`."""
    return join_words([*words[:limit], f"{len(words) - limit} more"] if len(words) > limit else list(words))


def count(number: int, noun: str) -> str:
    """`1 queue`, `3 queues`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def host_of(client_addr: str) -> str:
    """The host of `ip:port`."""
    return client_addr.rpartition(":")[0] or client_addr


def describe_duplicate_client_id(
    cluster: str,
    consumer_group: str,
    client_id: str,
    views: Mapping[str, Sequence[str]],
    starved: Mapping[str, Sequence[str]],
    since_ms: int,
) -> Text:
    """Summary and advice for a ClientId on several channels. `starved` is topic → queues."""
    broker_names = sorted(views)
    addrs = views[broker_names[0]]
    who = f"{count(len(addrs), 'client')} carry ClientId {client_id} in group {consumer_group} (cluster {cluster})"
    where = f"{join_words(addrs)}, both alive" if len(addrs) == 2 else f"{join_words(addrs)}, all alive"
    summary = f"{who}: {where} in the view of {join_words(broker_names)} since {clock(since_ms)}."
    if starved:
        lost = join_words([f"{name_queues(queues)} of topic {topic}" for topic, queues in sorted(starved.items())])
        summary += f" Each takes the first one's share, so nobody consumes {lost}."
    else:
        summary += " No queue starves by it now, but what they take is consumed twice."
    hosts = sorted({host_of(addr) for addr in addrs})
    place = f"on {hosts[0]} or {hosts[1]}" if len(hosts) > 1 else f"in one of the processes on {hosts[0]}"
    advice = (
        f'Give each process its own ClientId: consumer.setInstanceName("...") (or -Drocketmq.client.name=...) {place}, '
        "then restart it. Java clients from 4.9.0 do so by themselves unless instanceName is set."
    )
    return Text(summary, advice)


def describe_starved_queue(
    cluster: str,
    consumer_group: str,
    topic: str,
    cause: str,
    queues: Sequence[str],
    since_ms: int,
    *,
    client_id: str | None,
    client_addr: str | None,
    backlog: int | None,
    strategies: Mapping[str, Sequence[str]] | None = None,
    came: int = 0,
    is_listed_again: bool = False,
) -> Text:
    """Summary and advice for queues nobody consumes.

    `backlog` is messages, null when no end was seen; `strategies` is strategy → ClientIds; `came` is messages that came
    while commits stood still. `is_listed_again`: a broker lists the client more than once, and one channel is dead.
    """
    facts = {
        "cluster": cluster,
        "consumer_group": consumer_group,
        "topic": topic,
        "client_id": client_id,
        "client_addr": client_addr,
        "host": host_of(client_addr) if client_addr else "its host",
        "strategies": _describe_strategies(strategies or {}),
        "came": f" while {count(came, 'message')} came" if came else "",
    }
    why, advice = WHY[cause], ADVICE[cause]
    if cause == "consume_stopped" and client_id is None:
        known = REVIVE_STOPPED if consumer_group == REVIVE_GROUP else COMMITS_STOPPED
        why, advice = known.summary, known.advice
    if is_listed_again:
        why, advice = LISTED_AGAIN.summary, LISTED_AGAIN.advice
    grows = f" {count(backlog, 'message')} waited there when they were last seen." if backlog else ""
    summary = (
        f"Nobody consumes {count(len(queues), 'queue')} of topic {topic} in group {consumer_group} (cluster {cluster}) "
        f"since {clock(since_ms)}: {name_queues(queues)}. Why: {why.format(**facts)}.{grows}"
    )
    return Text(summary, advice.format(**facts))


LISTED_AGAIN = Text(
    "a broker lists {client_id} more than once, and the queues of the additional entries belong to no client",
    "Wait for 2 minutes: a broker can list closed connections after it hung or restarted, and drops them 120 s after "
    "their last heartbeat (apache/rocketmq issue 9830). If the queues starve longer, restart the clients of "
    "{consumer_group}.",
)
"""Why and what to do where a ClientId has several channels of which one alone sends heartbeats."""


def _describe_strategies(strategies: Mapping[str, Sequence[str]]) -> str:
    """` (AVG: c1 and c2; unknown: c3)`."""
    reported = [f"{'unknown' if name == '?' else name}: {some(ids)}" for name, ids in sorted(strategies.items())]
    return f" ({'; '.join(reported)})" if reported else ""
