"""Summaries and advice of alerts: what, where, since when, why, what to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from udfs.alerts.alert import Text, wording
from udfs.alerts.phrase import Fact, Phrase, join_clauses, join_sentences, phrase, some_of
from udfs.rocketmq.model import queue_order
from udfs.rocketmq.own_names import REVIVE_GROUP

STARVATION_TEXTS = {
    "duplicate_client_id": wording(
        "several clients share ClientId {client_id}, and each takes the share of the first",
        "Give each process with ClientId {client_id} its own instanceName, then restart it.",
    ),
    "member_not_subscribed": wording(
        "{client_id} counts as a member and gets these queues, but does not subscribe to the topic",
        "All members of a group must subscribe to the same topics: add the subscription to {client_id}, or move it "
        "to another group.",
    ),
    "consume_disabled": wording(
        "the broker refuses the group's pulls because consumeEnable is false",
        "If this is not intended, enable it: mqadmin updateSubGroup -c {cluster} -g {consumer_group} -s true -m "
        "true -d true",
    ),
    "mixed_strategy": wording(
        "the members use different allocation strategies{strategies}, and none takes these queues",
        "Give all members of {consumer_group} the same AllocateMessageQueueStrategy and SDK, then restart those "
        "that differ.",
    ),
    "strategy_gap": wording(
        "the group's allocation strategy{strategies} gives them to no member",
        "Check the strategy's options: every broker room needs a consumer (consumeridcs), and every queue must be "
        "in a configured list.",
    ),
    "write_only_queue": wording(
        "producers can write to them, but the route does not let consumers read them",
        "Make them readable: mqadmin updateTopic -t {topic} with equal readQueueNums (-r) and writeQueueNums (-w) "
        "and permission 6 (-p 6).",
    ),
    "split_view": wording(
        "the brokers list different members, and {client_id} at {client_addr} uses another list",
        "Check the network between {client_id} on {host} and the brokers that do not list it, or restart the client.",
    ),
    "stale_route": wording(
        "{client_id} at {client_addr} still uses the topic's old route",
        "Restart {client_id} on {host}: it still uses the old route.",
    ),
    "order_lock": wording(
        "{client_id} at {client_addr} consumes in order and does not hold the locks of these queues",
        "If the broker has no master, bring it back: only masters grant locks. Otherwise find the client that held "
        "these queues before {client_id} and restart it; locks expire 60 s after their holder is gone.",
    ),
    "frozen_client": wording(
        "{client_id} at {client_addr} is still listed, but sends no heartbeats and does not pull",
        "Check {client_id} on {host} for a full GC, swapping, suspension or a network fault, then restart it.",
    ),
    "consume_stopped": wording(
        "the committed offset stands still{came}: {client_id} at {client_addr} holds the queues and consumes "
        "nothing (listener hangs, consumer suspended, or cache full)",
        "Take a jstack of {client_id} on {host} (mqadmin consumerStatus -g {consumer_group} -i {client_id} -s). "
        "Fix what its listener waits for, or resume() the consumer if it was suspended; then restart it.",
    ),
    "pull_stopped": wording(
        "{client_id} at {client_addr} sends heartbeats, but has stopped pulling",
        "If {client_id} on {host} was suspended, resume() it. Otherwise take a jstack and restart it: its "
        "rebalance takes the queues again.",
    ),
    "group_offline": wording("the group has no members", "Start a consumer of group {consumer_group}."),
}
"""Cause → the reason as the summary gives it, and the line that fixes it."""

COMMITS_STOPPED = wording(
    "the committed offset stands still{came}: no member of the group takes more messages from them (listeners "
    "hang, or do not acknowledge messages)",
    "Take a jstack of each consumer of {consumer_group}, fix what its listener waits for, and restart it. If the "
    "application calls receive() itself, check that it still does.",
)
"""Reason and advice of consume_stopped where queues have no owner: POP, gRPC, server-side rebalance, assign()."""

REVIVE_STOPPED = wording(
    "the committed offset stands still{came}: the broker's PopReviveService has stopped",
    "Search the broker's pop.log for PopReviveService, check its disk and timerWheelEnable, then restart the "
    "broker. Until then POP and gRPC consumers do not receive unacknowledged messages again.",
)
"""Reason and advice of consume_stopped for the broker's own revive log."""


LISTED_AGAIN = wording(
    "a broker lists {client_id} more than once, and the queues of the extra entries belong to no client",
    "Wait 2 minutes: after a hang or restart a broker can list closed connections, and drops them 120 s after "
    "their last heartbeat (apache/rocketmq issue 9830). If the queues still starve then, restart the clients of "
    "{consumer_group}.",
)
"""Reason and advice if a ClientId has several channels, of which only one sends heartbeats."""


def clock(time_ms: int) -> str:
    """`03:12:05 UTC`."""
    seconds = time_ms // 1000
    return f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"


def runs_of(queues: Sequence[str]) -> list[str]:
    """`broker-a:0-3,5`, `broker-b:1`: runs of queue numbers a broker."""
    runs: dict[str, list[list[int]]] = {}
    for broker_name, queue_id in sorted(queue_order(queue) for queue in queues):
        of_broker = runs.setdefault(broker_name, [])
        if of_broker and of_broker[-1][1] == queue_id - 1:
            of_broker[-1][1] = queue_id
        else:
            of_broker.append([queue_id, queue_id])
    return [
        f"{broker_name}:" + ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
        for broker_name, spans in runs.items()
    ]


def name_queues(queues: Sequence[str]) -> str:
    """`broker-a:0-3,5 and broker-b:1`, in English."""
    return join_words(runs_of(queues))


def join_words(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`, in English."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def some(words: Sequence[str], limit: int = 4) -> str:
    """`a, b, c, d and 9 more`, in English."""
    return join_words([str(word) for word in some_of(words, limit)])


def count(number: int, noun: str) -> str:
    """`1 queue`, `3 queues`, in English."""
    return str(number_of(number, noun))


def number_of(number: int, noun: str) -> Phrase:
    """`1 queue`, `3 queues`, as a phrase. The noun is a literal."""
    return Phrase(f"{{number}} {noun}{'' if number == 1 else 's'}", {"number": number})


def queues_of_topic(queues: Sequence[str], topic: str) -> Phrase:
    """`broker-a:0-3 and broker-b:1 of topic orders`."""
    return phrase("{queues} of topic {topic}", queues=runs_of(queues), topic=topic)


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
    alive = phrase("{addrs}, all alive according to {broker_names}")
    alive = phrase("{addrs}, both alive according to {broker_names}") if len(addrs) == 2 else alive
    effect = phrase("No queue starves now, but the queues of this share are consumed more than once.")
    if starved:
        lost = [queues_of_topic(queues, topic) for topic, queues in sorted(starved.items())]
        effect = phrase("Each takes the share of the first, so no client consumes {queues}.", queues=lost)
    hosts = sorted({host_of(addr) for addr in addrs})
    place = phrase("in one of the processes on {host}", host=hosts[0])
    if len(hosts) > 1:
        place = phrase("on {host} or {other_host}", host=hosts[0], other_host=hosts[1])
    facts: dict[str, Fact] = {"consumer_group": consumer_group, "cluster": cluster, "client_id": client_id}
    return wording(
        "{clients} of group {consumer_group} (cluster {cluster}) have shared ClientId {client_id} since {time}: "
        "{alive}. {effect}",
        'Give each process its own ClientId: consumer.setInstanceName("...") (or -Drocketmq.client.name=...) {place}, '
        "then restart it. Java clients from 4.9.0 have unique ClientIds unless instanceName is set.",
    ).given(
        **facts,
        clients=number_of(len(addrs), "client"),
        time=clock(since_ms),
        effect=effect,
        place=place,
        alive=alive.given(addrs=addrs, broker_names=broker_names),
    )


@dataclass(frozen=True)
class Reason:
    """Why these queues starve, and the client that it lies with.

    `came` is the messages that arrived while commits stood still. `is_listed_again`: a broker lists the client more
    than once, and one channel is dead.
    """

    cause: str
    queues: Sequence[str]
    client_id: str | None = None
    client_addr: str | None = None
    came: int = 0
    is_listed_again: bool = False


def describe_starved_queue(
    cluster: str,
    consumer_group: str,
    topic: str,
    reasons: Sequence[Reason],
    since_ms: int,
    *,
    backlog: int | None,
    strategies: Mapping[str, Sequence[str]] | None = None,
) -> Text:
    """Return summary and advice for queues that no client consumes. Several reasons name their queues.

    `backlog` is in messages, None if no end was seen; `strategies` is strategy → ClientIds.
    """
    reported = [
        phrase("{strategy}: {client_ids}").given(
            strategy=phrase("unknown") if name == "?" else name, client_ids=some_of(client_ids)
        )
        for name, client_ids in sorted((strategies or {}).items())
    ]
    facts: dict[str, Fact] = {
        "cluster": cluster,
        "consumer_group": consumer_group,
        "topic": topic,
        "strategies": phrase(" ({strategies})", strategies=join_clauses(reported)) if reported else "",
    }
    texts = [_explain(reason, facts, is_revive=consumer_group == REVIVE_GROUP) for reason in reasons]
    whys = [text.summary for text in texts]
    if len(reasons) > 1:
        of_queues = [runs_of(reason.queues) for reason in reasons]
        whys = [phrase("{reason} ({queues})", reason=why, queues=of) for why, of in zip(whys, of_queues, strict=True)]
    queues = [queue for reason in reasons for queue in reason.queues]
    waiting = phrase(" Backlog: {messages} when last read.", messages=number_of(backlog or 0, "message"))
    return wording(
        "Group {consumer_group} (cluster {cluster}) has not consumed {number} of topic {topic} since {time}: {queues}. "
        "Cause: {reason}.{waiting}",
        reduce(join_sentences, (text.advice for text in texts)),
    ).given(
        **facts,
        number=number_of(len(queues), "queue"),
        time=clock(since_ms),
        queues=runs_of(queues),
        reason=join_clauses(whys),
        waiting=waiting if backlog else "",
    )


def _explain(reason: Reason, facts: Mapping[str, Fact], *, is_revive: bool) -> Text:
    why = STARVATION_TEXTS[reason.cause]
    if reason.is_listed_again:
        why = LISTED_AGAIN
    elif reason.cause == "consume_stopped" and reason.client_id is None:
        why = REVIVE_STOPPED if is_revive else COMMITS_STOPPED
    came = phrase(" while {messages} arrived", messages=number_of(reason.came, "message"))
    addr = reason.client_addr
    of_reason: dict[str, Fact] = {
        "client_id": str(reason.client_id),
        "client_addr": addr or phrase("an unknown address"),
        "host": host_of(addr) if addr else phrase("its host"),
        "came": came if reason.came else "",
    }
    return why.given(**facts, **of_reason)
