"""Summaries and advice of the group's findings, as a colleague would say them."""

from collections.abc import Mapping, Sequence

from udfs.alerts.alert import Text
from udfs.alerts.prose import clock, count, host_of, join_words, name_queues, some

WHY_DOUBLE_CONSUMED = {
    "duplicate_client_id": "they carry one ClientId, and each takes its share",
    "mixed_strategy": "the members do not share out by one strategy",
    "split_view": "they work from different brokers' lists of the group",
    "stale_route": "one of them works from the topic's route as it was before it changed",
    "unexplained": "neither the members' lists nor their strategy gives them both",
}


def _where(labels: Mapping[str, str]) -> str:
    return f"group {labels['consumer_group']} (cluster {labels['cluster']})"


def describe_stalled_queue(
    labels: Mapping[str, str], topic: str, queues: Sequence[str], owners: Sequence[str], cause: str, since_ms: int
) -> Text:
    """Queues whose owner is listed and has not pulled them for a while, or pulls and commits nothing."""
    if cause == "consume_stopped":
        return Text(
            f"The committed offset of {count(len(queues), 'queue')} of topic {topic} in {_where(labels)} stands still "
            f"since {clock(since_ms)} while messages wait: {name_queues(queues)}. {some(owners)} should consume "
            f"{'it' if len(queues) == 1 else 'them'}.",
            f"Look at {some(owners)}: a listener that hangs (jstack shows it; mqadmin consumerStatus "
            f"-g {labels['consumer_group']} -i CLIENT_ID -s), a consumer that is suspended, a full cache.",
        )
    return Text(
        f"{count(len(queues), 'queue')} of topic {topic} in {_where(labels)} "
        f"{'is' if len(queues) == 1 else 'are'} not pulled since {clock(since_ms)}: {name_queues(queues)}. "
        f"{some(owners)} should pull {'it' if len(queues) == 1 else 'them'} and {'is' if len(owners) == 1 else 'are'} "
        "still listed.",
        f"Look at {some(owners)}: a full GC, a consumer that is paused or flow-controlled, a stuck listener "
        "(jstack shows it).",
    )


def describe_double_consumed_queue(
    labels: Mapping[str, str],
    topic: str,
    queues: Sequence[str],
    pullers: Mapping[str, Sequence[str]],
    cause: str,
    since_ms: int,
) -> Text:
    """Queues that several clients consume side by side."""
    who = some(sorted({puller for names in pullers.values() for puller in names}))
    fix = {
        "duplicate_client_id": "Give each process its own ClientId (instanceName), then restart it.",
        "mixed_strategy": "Give all members one AllocateMessageQueueStrategy and one SDK; restart those that differ.",
        "split_view": "Find the broker that one of them cannot reach; the lists agree once it heartbeats there.",
        "stale_route": "Restart the client that still works from the old route.",
    }.get(cause, "Compare the members' strategies, versions and ClientIds; stop the one that does not belong.")
    return Text(
        f"{count(len(queues), 'queue')} of topic {topic} in {_where(labels)} {'is' if len(queues) == 1 else 'are'} "
        f"consumed twice since {clock(since_ms)}: {name_queues(queues)}, by {who}. Why: {WHY_DOUBLE_CONSUMED[cause]}.",
        fix,
    )


def describe_offset_regression(
    labels: Mapping[str, str], topic: str, queues: Sequence[str], again: int, since_ms: int
) -> Text:
    """Committed offsets that went back; `again` messages are consumed a second time."""
    return Text(
        f"The committed offset of {count(len(queues), 'queue')} of topic {topic} in {_where(labels)} went back at "
        f"{clock(since_ms)}: {name_queues(queues)}. {count(again, 'message')} are consumed again.",
        "Nothing to do if somebody reset the offset or a broker crashed (it keeps the last 5 s in memory only); "
        "otherwise look for a second consumer that commits for this group.",
    )


def describe_split_view(
    labels: Mapping[str, str], missing: Mapping[str, Sequence[str]], starving: Sequence[str], since_ms: int
) -> Text:
    """Brokers whose lists of the group differ. `missing` is broker → ClientIds it does not list."""
    lacks = join_words(
        [f"{broker_name} lacks {some(client_ids)}" for broker_name, client_ids in sorted(missing.items())]
    )
    effect = f" Nobody consumes {name_queues(starving)}." if starving else ""
    broker_names = join_words(sorted(missing))
    return Text(
        f"The brokers list different members of {_where(labels)} since {clock(since_ms)}: {lacks}. Each client asks a "
        f"random broker at each rebalance, so queues change hands, are doubled or left out.{effect}",
        f"Check the network between the missing clients and {broker_names}; restarting them makes them register anew.",
    )


def describe_inconsistent_subscription(
    labels: Mapping[str, str],
    odd: Sequence[str],
    reported: Mapping[str, Mapping[str, str]],
    usual: Mapping[str, str],
) -> Text:
    """Members whose subscriptions differ. Subscriptions are topic → expression."""
    example = reported[odd[0]]
    topics = sorted(topic for topic in usual.keys() | example.keys() if usual.get(topic) != example.get(topic))
    differs = join_words(
        [f"{topic} ({example.get(topic, 'not subscribed')} instead of {usual.get(topic, 'none')})" for topic in topics]
    )
    return Text(
        f"Members of {_where(labels)} subscribe differently: {some(odd)}, on {differs}. Each heartbeat replaces what "
        "the broker knows of the group, so messages are filtered by turns, or topics are left unread.",
        f"Give all members the same topics and expressions, or {some(odd)} a group of its own.",
    )


def describe_group_offline(labels: Mapping[str, str], topics: Sequence[str], since_ms: int) -> Text:
    """A group without members."""
    return Text(
        f"No member is left in {_where(labels)} since {clock(since_ms)}: nobody consumes {some(topics)} for it.",
        f"Start a consumer of group {labels['consumer_group']}. Without one for a day it counts as given up.",
    )


def describe_client_id_at_risk(labels: Mapping[str, str], addrs: Mapping[str, str]) -> Text:
    """ClientIds that one restart can make equal. `addrs` is ClientId → ip:port of its channel."""
    who = some([f"{client_id} on {host_of(addr)}" for client_id, addr in sorted(addrs.items())])
    return Text(
        f"ClientIds of {_where(labels)} differ by luck only: {who}. Address and pid are the container's own, so a "
        "restart can give two of them the same one, and both would take one share.",
        "Set an instanceName of its own for each process, or use rocketmq-client 4.9.0 or newer, which adds nanoTime.",
    )


def describe_slave_read(labels: Mapping[str, str], broker_name: str, cause: str, queues: int, since_ms: int) -> Text:
    """Pulls that a slave serves."""
    why = (
        "its master is gone"
        if cause == "master_down"
        else "what the group reads has left the master's memory (over 40 % behind)"
    )
    fix = (
        f"Bring the master of {broker_name} back: nothing can be written there, and ordered consumers wait for locks."
        if cause == "master_down"
        else "Let the group catch up: add consumers or queues, or look for what slows them down."
    )
    return Text(
        f"A slave of {broker_name} serves {count(queues, 'queue')} of {_where(labels)} since {clock(since_ms)}: {why}.",
        fix,
    )


def describe_order_at_risk(
    labels: Mapping[str, str], topic: str, broker_names: Sequence[str], *, is_global: bool, since_ms: int
) -> Text:
    """An ordered topic one of whose brokers is down."""
    names = join_words(list(broker_names))
    effect = (
        "it has one queue, so it stops until the broker is back"
        if is_global
        else "messages of one key go to another queue now, and what waits in the old one is overtaken"
    )
    return Text(
        f"Order is at risk in topic {topic} of {_where(labels)} since {clock(since_ms)}: {names} is down; {effect}.",
        f"Bring {names} back before its producers send on, or stop them if order matters more than being available.",
    )
