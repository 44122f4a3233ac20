"""Summaries and advice of a group's findings."""

from collections.abc import Mapping, Sequence

from udfs.alerts.alert import Text
from udfs.alerts.prose import clock, count, host_of, join_words, name_queues, some

WHY_DOUBLE_CONSUMED = {
    "duplicate_client_id": "they share one ClientId, and each takes its share",
    "mixed_strategy": "the members use different allocation strategies",
    "split_view": "they use the member lists of different brokers",
    "stale_route": "one of them still uses the topic's old route",
    "unexplained": "unknown; neither the member lists nor the strategies explain it",
}


def _where(labels: Mapping[str, str]) -> str:
    return f"group {labels['consumer_group']} (cluster {labels['cluster']})"


def describe_stalled_queue(
    labels: Mapping[str, str], topic: str, queues: Sequence[str], owners: Sequence[str], cause: str, since_ms: int
) -> Text:
    """Return summary and advice for queues whose listed owner has stopped pulling, or pulls and commits nothing."""
    if cause == "consume_stopped":
        return Text(
            f"The committed offset of {count(len(queues), 'queue')} of topic {topic} in {_where(labels)} has stood "
            f"still since {clock(since_ms)} while messages wait: {name_queues(queues)}. Planned owner: {some(owners)}.",
            f"Check {some(owners)} for a listener that hangs (jstack, or mqadmin consumerStatus "
            f"-g {labels['consumer_group']} -i CLIENT_ID -s), a suspended consumer or a full cache.",
        )
    return Text(
        f"{count(len(queues), 'queue')} of topic {topic} in {_where(labels)} {'has' if len(queues) == 1 else 'have'} "
        f"not been pulled since {clock(since_ms)}: {name_queues(queues)}. Planned owner: {some(owners)}, still listed "
        "by the brokers.",
        f"Check {some(owners)} for a full GC, a paused or flow-controlled consumer, or a stuck listener (jstack).",
    )


def describe_double_consumed_queue(
    labels: Mapping[str, str],
    topic: str,
    queues: Sequence[str],
    pullers: Mapping[str, Sequence[str]],
    cause: str,
    since_ms: int,
) -> Text:
    """Return summary and advice for queues that several clients consume at the same time."""
    who = some(sorted({puller for names in pullers.values() for puller in names}))
    fix = {
        "duplicate_client_id": "Give each process its own ClientId (instanceName), then restart it.",
        "mixed_strategy": "Give all members the same AllocateMessageQueueStrategy and SDK; restart those that differ.",
        "split_view": "Find the broker that one of them cannot reach; the lists agree once its heartbeats arrive.",
        "stale_route": "Restart the client that still uses the old route.",
    }.get(cause, "Compare the members' strategies, versions and ClientIds; stop the client that does not belong there.")
    return Text(
        f"{count(len(queues), 'queue')} of topic {topic} in {_where(labels)} {'has' if len(queues) == 1 else 'have'} "
        f"been consumed twice since {clock(since_ms)}: {name_queues(queues)}, by {who}. Cause: "
        f"{WHY_DOUBLE_CONSUMED[cause]}.",
        fix,
    )


def describe_offset_regression(
    labels: Mapping[str, str], topic: str, queues: Sequence[str], again: int, since_ms: int
) -> Text:
    """Return summary and advice for committed offsets that went back by `again` messages."""
    return Text(
        f"The committed offset of {count(len(queues), 'queue')} of topic {topic} in {_where(labels)} went back at "
        f"{clock(since_ms)}: {name_queues(queues)}. {count(again, 'message')} will be consumed again.",
        "No action if the offset was reset on purpose or a broker crashed (it persists offsets every 5 s); otherwise "
        "find the second consumer that commits for this group.",
    )


def describe_split_view(
    labels: Mapping[str, str], missing: Mapping[str, Sequence[str]], starving: Sequence[str], since_ms: int
) -> Text:
    """Return summary and advice for brokers that list different members. `missing` is broker → unlisted ClientIds."""
    lacks = join_words(
        [f"{broker_name} lacks {some(client_ids)}" for broker_name, client_ids in sorted(missing.items())]
    )
    effect = f" No client consumes {name_queues(starving)}." if starving else ""
    broker_names = join_words(sorted(missing))
    return Text(
        f"The brokers have listed different members of {_where(labels)} since {clock(since_ms)}: {lacks}. Each client "
        f"asks a random broker at each rebalance, so queues change owners, have two owners or none.{effect}",
        f"Check the network between the missing clients and {broker_names}; a restarted client registers again.",
    )


def describe_inconsistent_subscription(
    labels: Mapping[str, str],
    odd: Sequence[str],
    reported: Mapping[str, Mapping[str, str]],
    usual: Mapping[str, str],
) -> Text:
    """Return summary and advice for members whose subscriptions (topic → expression) differ."""
    example = reported[odd[0]]
    topics = sorted(topic for topic in usual.keys() | example.keys() if usual.get(topic) != example.get(topic))
    differs = join_words(
        [f"{topic} ({example.get(topic, 'not subscribed')} instead of {usual.get(topic, 'none')})" for topic in topics]
    )
    return Text(
        f"Members of {_where(labels)} have different subscriptions: {some(odd)}, on {differs}. Each heartbeat replaces "
        "the group's subscription at the broker, so messages are skipped or topics are not read.",
        f"Give all members the same topics and expressions, or move {some(odd)} to another group.",
    )


def describe_group_offline(labels: Mapping[str, str], topics: Sequence[str], since_ms: int) -> Text:
    """Return summary and advice for a group without members."""
    return Text(
        f"No member of {_where(labels)} has been connected since {clock(since_ms)}, so no client consumes "
        f"{some(topics)} for it.",
        f"Start a consumer of group {labels['consumer_group']}. After a day without members the group counts as given "
        "up.",
    )


def describe_client_id_at_risk(labels: Mapping[str, str], addrs: Mapping[str, str]) -> Text:
    """Return summary and advice for ClientIds that a restart can make equal. `addrs` is ClientId → ip:port."""
    who = some([f"{client_id} on {host_of(addr)}" for client_id, addr in sorted(addrs.items())])
    return Text(
        f"ClientIds of {_where(labels)} are unique only by chance: {who}. They consist of a container's address and "
        "pid, so after a restart two clients may share a ClientId, and some queues would have no consumer.",
        "Give each process its own instanceName, or use rocketmq-client 4.9.0 or newer, which adds nanoTime.",
    )


def describe_slave_read(labels: Mapping[str, str], broker_name: str, cause: str, queues: int, since_ms: int) -> Text:
    """Return summary and advice for pulls that a slave serves."""
    why = (
        "its master is down"
        if cause == "master_down"
        else "the group reads messages that are no longer in the master's memory (over 40 % behind)"
    )
    fix = (
        f"Bring the master of {broker_name} back: until then producers cannot write, and ordered consumers get no "
        "locks."
        if cause == "master_down"
        else "Help the group catch up: add consumers or queues, or find what slows its listeners down."
    )
    return Text(
        f"A slave of {broker_name} has served {count(queues, 'queue')} of {_where(labels)} since {clock(since_ms)}: "
        f"{why}.",
        fix,
    )


def describe_order_at_risk(
    labels: Mapping[str, str], topic: str, broker_names: Sequence[str], *, is_global: bool, since_ms: int
) -> Text:
    """Return summary and advice for an ordered topic with a broker that is down."""
    names = join_words(list(broker_names))
    effect = (
        "the topic has only one queue and stops until the broker is back"
        if is_global
        else "messages of one key now go to another queue and overtake those that wait in the old one"
    )
    return Text(
        f"Message order of topic {topic} in {_where(labels)} has been at risk since {clock(since_ms)}: {names} "
        f"{'is' if len(broker_names) == 1 else 'are'} unavailable; {effect}.",
        f"Bring {names} back before producers continue, or stop the producers if order matters more than availability.",
    )
