"""Summaries and advice of alerts: what, where, since when, why, what to do."""

from collections.abc import Mapping, Sequence

from udfs.alerts.alert import Text
from udfs.rocketmq.model import queue_order
from udfs.rocketmq.own_names import REVIVE_GROUP

STARVATION_TEXTS = {
    "duplicate_client_id": Text(
        "several clients share ClientId {client_id}, and each takes the share of the first",
        "Give each process with ClientId {client_id} its own instanceName, then restart it.",
    ),
    "member_not_subscribed": Text(
        "{client_id} counts as a member and gets these queues, but does not subscribe to the topic",
        "All members of a group must subscribe to the same topics: add the subscription to {client_id}, or move it to "
        "another group.",
    ),
    "consume_disabled": Text(
        "the broker refuses the group's pulls because consumeEnable is false",
        "If this is not intended, enable it: mqadmin updateSubGroup -c {cluster} -g {consumer_group} -s true -m true "
        "-d true",
    ),
    "mixed_strategy": Text(
        "the members use different allocation strategies{strategies}, and none takes these queues",
        "Give all members of {consumer_group} the same AllocateMessageQueueStrategy and SDK, then restart those that "
        "differ.",
    ),
    "strategy_gap": Text(
        "the group's allocation strategy{strategies} gives them to no member",
        "Check the strategy's options: every broker room needs a consumer (consumeridcs), and every queue must be in a "
        "configured list.",
    ),
    "write_only_queue": Text(
        "producers can write to them, but the route does not let consumers read them",
        "Make them readable: mqadmin updateTopic -t {topic} with equal readQueueNums (-r) and writeQueueNums (-w) and "
        "permission 6 (-p 6).",
    ),
    "split_view": Text(
        "the brokers list different members, and {client_id} at {client_addr} uses another list",
        "Check the network between {client_id} on {host} and the brokers that do not list it, or restart the client.",
    ),
    "stale_route": Text(
        "{client_id} at {client_addr} still uses the topic's old route",
        "Restart {client_id} on {host}: it still uses the old route.",
    ),
    "order_lock": Text(
        "{client_id} at {client_addr} consumes in order and does not hold the locks of these queues",
        "If the broker has no master, bring it back: only masters grant locks. Otherwise find the client that held "
        "these queues before {client_id} and restart it; locks expire 60 s after their holder is gone.",
    ),
    "frozen_client": Text(
        "{client_id} at {client_addr} is still listed, but sends no heartbeats and does not pull",
        "Check {client_id} on {host} for a full GC, swapping, suspension or a network fault, then restart it.",
    ),
    "consume_stopped": Text(
        "the committed offset stands still{came}: {client_id} at {client_addr} holds the queues and consumes nothing "
        "(listener hangs, consumer suspended, or cache full)",
        "Take a jstack of {client_id} on {host} (mqadmin consumerStatus -g {consumer_group} -i {client_id} -s). Fix "
        "what its listener waits for, or resume() the consumer if it was suspended; then restart it.",
    ),
    "pull_stopped": Text(
        "{client_id} at {client_addr} sends heartbeats, but has stopped pulling",
        "If {client_id} on {host} was suspended, resume() it. Otherwise take a jstack and restart it: its rebalance "
        "takes the queues again.",
    ),
    "group_offline": Text(
        "the group has no members",
        "Start a consumer of group {consumer_group}.",
    ),
}
"""Cause → the reason as the summary gives it, and the line that fixes it."""

COMMITS_STOPPED = Text(
    "the committed offset stands still{came}: no member of the group takes more messages from them (listeners hang, or "
    "do not acknowledge messages)",
    "Take a jstack of each consumer of {consumer_group}, fix what its listener waits for, and restart it. If the "
    "application calls receive() itself, check that it still does.",
)
"""Reason and advice of consume_stopped where queues have no owner: POP, gRPC, server-side rebalance, assign()."""

REVIVE_STOPPED = Text(
    "the committed offset stands still{came}: the broker's PopReviveService has stopped",
    "Search the broker's pop.log for PopReviveService, check its disk and timerWheelEnable, then restart the broker. "
    "Until then POP and gRPC consumers do not receive unacknowledged messages again.",
)
"""Reason and advice of consume_stopped for the broker's own revive log."""


LISTED_AGAIN = Text(
    "a broker lists {client_id} more than once, and the queues of the extra entries belong to no client",
    "Wait 2 minutes: after a hang or restart a broker can list closed connections, and drops them 120 s after their "
    "last heartbeat (apache/rocketmq issue 9830). If the queues still starve then, restart the clients of "
    "{consumer_group}.",
)
"""Reason and advice if a ClientId has several channels, of which only one sends heartbeats."""


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
    """Return summary and advice for a ClientId on several channels. `starved` is topic → queues."""
    broker_names = sorted(views)
    addrs = views[broker_names[0]]
    clients = f"{count(len(addrs), 'client')} of group {consumer_group} (cluster {cluster})"
    alive = f"{join_words(addrs)}, {'both' if len(addrs) == 2 else 'all'} alive according to {join_words(broker_names)}"
    summary = f"{clients} have shared ClientId {client_id} since {clock(since_ms)}: {alive}."
    if starved:
        lost = join_words([f"{name_queues(queues)} of topic {topic}" for topic, queues in sorted(starved.items())])
        summary += f" Each takes the share of the first, so no client consumes {lost}."
    else:
        summary += " No queue starves now, but the queues of this share are consumed more than once."
    hosts = sorted({host_of(addr) for addr in addrs})
    place = f"on {hosts[0]} or {hosts[1]}" if len(hosts) > 1 else f"in one of the processes on {hosts[0]}"
    advice = (
        f'Give each process its own ClientId: consumer.setInstanceName("...") (or -Drocketmq.client.name=...) {place}, '
        "then restart it. Java clients from 4.9.0 have unique ClientIds unless instanceName is set."
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
    """Return summary and advice for queues that no client consumes.

    `backlog` is in messages, None if no end was seen; `strategies` is strategy → ClientIds; `came` is the messages that
    arrived while commits stood still. `is_listed_again`: a broker lists the client more than once, and one channel is
    dead.
    """
    by_name = sorted((strategies or {}).items())
    reported = [f"{'unknown' if name == '?' else name}: {some(ids)}" for name, ids in by_name]
    facts = {
        "cluster": cluster,
        "consumer_group": consumer_group,
        "topic": topic,
        "client_id": client_id,
        "client_addr": client_addr,
        "host": host_of(client_addr) if client_addr else "its host",
        "strategies": f" ({'; '.join(reported)})" if reported else "",
        "came": f" while {count(came, 'message')} arrived" if came else "",
    }
    reason = STARVATION_TEXTS[cause]
    if is_listed_again:
        reason = LISTED_AGAIN
    elif cause == "consume_stopped" and client_id is None:
        reason = REVIVE_STOPPED if consumer_group == REVIVE_GROUP else COMMITS_STOPPED
    waiting = f" Backlog: {count(backlog, 'message')} when last read." if backlog else ""
    summary = (
        f"Group {consumer_group} (cluster {cluster}) has not consumed {count(len(queues), 'queue')} of topic {topic} "
        f"since {clock(since_ms)}: {name_queues(queues)}. Cause: {reason.summary.format(**facts)}.{waiting}"
    )
    return Text(summary, reason.advice.format(**facts))
