"""Which queues a client means to hold: RebalanceImpl.doRebalance, topic by topic. The clock is the caller's.

The list of clients is the group's, including those without the topic: a member that does not subscribe it takes a
share on paper and never pulls it. A client rebalances by what it sees, and two that see the same lists and allocate
by the same strategy take disjoint shares.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import Any

from udfs.rocketmq.allocation import UnknownStrategyError, allocate
from udfs.rocketmq.model import MessageQueue, java_order
from udfs.rocketmq.process_queue import ProcessQueue, ProcessQueueTable, rebalance_rules
from udfs.rocketmq.version import NEWEST, ClientVersion

WAIT_MS = 20_000
"""RebalanceService.waitInterval: from one round to the next without a call."""

MIN_INTERVAL_MS = 1_000
"""RebalanceService.minInterval (5.2.0): two rounds are never closer, however often a broker calls."""

_MQ_ORDER = attrgetter("topic", "broker_name", "queue_id")


def rebalance_by_topic(
    message_model: str,
    strategy: str,
    consumer_group: str,
    client_id: str,
    topic: str,
    mq_set: Collection[MessageQueue] | None,
    cid_all: Collection[str] | None,
    *,
    client_version: ClientVersion = NEWEST,
    **options: Any,
) -> list[MessageQueue] | None:
    """RebalanceImpl.rebalanceByTopic: the queues this client means to hold; None: it keeps what it holds.

    `mq_set`: the topic's readable queues as the client last received the route, None before the first. `cid_all`:
    the group's ClientIds with duplicates as one random broker listed them, None where it did not answer.
    `options` are the strategy's. Mirrors 4.0 to 5.5.

    None, and the old queues are kept: no route; no list; no readable queue, an empty list or anything else that the
    strategy throws at. An empty list of queues is an answer all the same, and drops what is held: the client does
    not find itself in `cid_all`, or there are more clients than queues.

    Raises UnknownStrategyError.
    """
    if _lacks(message_model, mq_set, cid_all, client_version):
        return None
    mq_all = sorted(mq_set or (), key=_MQ_ORDER)
    if message_model == "BROADCASTING":
        return mq_all
    in_order = sort_client_ids(cid_all or ())
    try:
        return allocate(strategy, consumer_group, client_id, mq_all, in_order, client_version=client_version, **options)
    except UnknownStrategyError:
        raise
    except ValueError:  # what the strategy throws, the client logs
        return None


def _lacks(
    message_model: str,
    mq_set: Collection[MessageQueue] | None,
    cid_all: Collection[str] | None,
    client_version: ClientVersion,
) -> bool:
    """Whether the client has not got the route or the list it needs; from 5.5.0 an empty one is none (clustering)."""
    if message_model == "BROADCASTING":
        return mq_set is None
    if rebalance_rules(client_version).skips_empty:
        return not mq_set or not cid_all
    return mq_set is None or cid_all is None


def sort_client_ids(client_ids: Iterable[str]) -> list[str]:
    """Collections.sort of ClientIds: Java's String order, UTF-16 units; Python's differs above U+FFFF."""
    ids = list(client_ids)
    if all(map(str.isascii, ids)):
        ids.sort()
    else:
        ids.sort(key=java_order)
    return ids


def working_message_queues(table: Mapping[MessageQueue, ProcessQueue], topic: str) -> set[MessageQueue]:
    """RebalanceImpl.getWorkingMessageQueue: what is held of the topic and not dropped."""
    return {mq for mq, process_queue in table.items() if mq.topic == topic and not process_queue.dropped}


def is_balanced(
    table: Mapping[MessageQueue, ProcessQueue],
    topic: str,
    message_model: str,
    mq_set: Collection[MessageQueue] | None,
    cid_all: Collection[str] | None,
    allocated: Collection[MessageQueue] | None,
    client_version: ClientVersion = NEWEST,
) -> bool:
    """What rebalanceByTopic returns (5.0) after the table was updated: the client holds just its share.

    Without a route or a list there is nothing to be unbalanced about. A strategy that threw, a queue that could
    not be locked and one whose listener holds on to it leave the topic unbalanced.
    """
    if _lacks(message_model, mq_set, cid_all, client_version):
        return True
    return allocated is not None and working_message_queues(table, topic) == set(allocated)


def truncate_message_queue_not_my_topic(
    table: ProcessQueueTable, subscribed_topics: Collection[str]
) -> list[MessageQueue]:
    """RebalanceImpl.truncateMessageQueueNotMyTopic: drop and remove the queues of topics no longer subscribed.

    Neither is the listener waited for, nor the offset committed, nor the broker's lock given back, so an orderly
    group's next owner waits until the lock expires, 60 s after it was last renewed.
    """
    strangers = [mq for mq in table if mq.topic not in subscribed_topics]
    for mq in strangers:
        table.pop(mq).dropped = True
    return strangers


def do_rebalance(
    subscribed_topics: Collection[str],
    rebalance_topic: Callable[[str], bool],
    table: ProcessQueueTable,
    client_version: ClientVersion = NEWEST,
) -> bool:
    """RebalanceImpl.doRebalance: every subscribed topic, then what is not subscribed any more; whether all balanced.

    `rebalance_topic(topic)` does one topic and says whether it is balanced; the group's %RETRY% topic is one of
    `subscribed_topics`. From 5.0 up to 5.1.4 the last topic's answer stands for all of them.
    """
    balanced = True
    counts_every_topic = client_version >= (5, 2, 0)
    for topic in subscribed_topics:
        is_topic_balanced = rebalance_topic(topic)
        balanced = (balanced or not counts_every_topic) and is_topic_balanced
    truncate_message_queue_not_my_topic(table, subscribed_topics)
    return balanced


def rebalance_wait_ms(balanced: bool, client_version: ClientVersion = NEWEST) -> int:
    """RebalanceService: how long to the next round without a call; 1 s after an unbalanced one from 5.2.0."""
    retry_ms = rebalance_rules(client_version).retry_ms
    return WAIT_MS if balanced or retry_ms is None else retry_ms


def rebalance_postponed_ms(last_rebalance_ms: int, now_ms: int, client_version: ClientVersion = NEWEST) -> int:
    """RebalanceService (5.2.0): how long a client that is called now still waits; 0 for at once.

    `last_rebalance_ms` is when its last round ended, or when it started. Up to 5.1.4 every call is a round.
    """
    if rebalance_rules(client_version).retry_ms is None:
        return 0
    return max(0, last_rebalance_ms + MIN_INTERVAL_MS - now_ms)
