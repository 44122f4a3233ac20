"""Messages in order: a selector maps each key to one queue, and nothing steers around a broker that is down.

DefaultMQProducerImpl.sendSelectImpl tries once, neither reads nor updates a FaultItem, and fails when the queue's
broker has no master. What happens to order is decided by the queue list: fixed by an operator (orderTopicConf) it
keeps the down broker's queues, so their keys stop and stay in order; from the route it shrinks, so keys move to
other queues and the order around the change is lost.
"""

from collections.abc import Collection, Sequence

from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.thread_local_index import absolute, remainder, wrap
from udfs.rocketmq.topic_publish_info import TopicPublishInfo
from udfs.rocketmq.version import NEWEST, ClientVersion, release_of

KEPT, MOVED, STOPPED = "KEPT", "MOVED", "STOPPED"


def string_hash_code(text: str) -> int:
    """Java's String.hashCode, over UTF-16 units: the hash of the usual ordering key."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFF_FFFF
    return wrap(code)


def select_message_queue_by_hash(
    message_queues: Sequence[MessageQueue], hash_code: int, client_version: ClientVersion | str = NEWEST
) -> MessageQueue | None:
    """SelectMessageQueueByHash: the queue of a key. None where it throws, which sends nothing: no queue in the list,
    or up to 4.7.1 the hash code Integer.MIN_VALUE, unless that divides.
    """
    if not message_queues:
        return None
    size = len(message_queues)
    if release_of(client_version) >= (4, 8, 0):
        return message_queues[abs(remainder(hash_code, size))]
    place = remainder(absolute(hash_code), size)
    return message_queues[place] if place >= 0 else None


def is_globally_ordered(info: TopicPublishInfo) -> bool:
    """One queue takes all messages, so all are in order, and all stop with its broker."""
    return len(info.message_queues) == 1


def judge_order(
    hash_code: int,
    before: TopicPublishInfo,
    after: TopicPublishInfo,
    masters: Collection[str],
    client_version: ClientVersion | str = NEWEST,
) -> str:
    """What a change of the queue list does to the messages of one key: KEPT, MOVED or STOPPED.

    `masters`: brokers whose master answers now. STOPPED: sends fail until it answers, in order all the same. MOVED:
    sends go on in another queue, and may overtake what waits in the old one.
    """
    queue = select_message_queue_by_hash(after.message_queues, hash_code, client_version)
    if queue is None or queue.broker_name not in masters:
        return STOPPED
    return KEPT if queue == select_message_queue_by_hash(before.message_queues, hash_code, client_version) else MOVED
