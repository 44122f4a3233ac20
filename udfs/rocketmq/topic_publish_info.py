"""TopicPublishInfo: the queues a producer may write to, in the order it takes turns over them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.route import PERM_WRITE, QueueData
from udfs.rocketmq.version import NEWEST, ClientVersion, release_of


@dataclass(frozen=True, slots=True)
class TopicPublishInfo:
    """Of one topic, by one producer. Without a queue it is not `ok`, and no send gets as far as a selection.

    `queue_datas` are the route's own, writable or not. `order_topic`: an operator fixed the queues (orderTopicConf).
    """

    topic: str
    message_queues: tuple[MessageQueue, ...]
    queue_datas: tuple[QueueData, ...]
    order_topic: bool = False

    @property
    def ok(self) -> bool:
        return bool(self.message_queues)

    def write_queue_nums(self, broker_name: str | None, client_version: ClientVersion | str = NEWEST) -> int:
        """How many queues the broker's first QueueData lets a producer write to; -1 for a broker not in the route.

        getQueueIdByBroker, getWriteQueueIdByBroker, getWriteQueueNumsByBroker: one method, three names. Only 4.9.8
        passes over what may not be written.
        """
        needs_write = (4, 9, 8) <= release_of(client_version) < (5, 0, 0)
        for data in self.queue_datas:
            if data.broker_name == broker_name and (data.perm & PERM_WRITE or not needs_write):
                return data.write_queue_nums
        return -1


def to_topic_publish_info(
    topic: str, queue_datas: Iterable[QueueData], masters: Collection[str], order_topic_conf: str | None = None
) -> TopicPublishInfo:
    """MQClientInstance.topicRouteData2TopicPublishInfo, 4.0.0 to 5.5.0, of a topic that is not static.

    `masters`: the brokers whose master (brokerId 0) is in the route; a writable broker without one gives no queue.
    `order_topic_conf` ("broker-a:4;broker-b:4") fixes the queues whatever the route says, down brokers included.
    Raises ValueError for a conf that is not of that form.
    """
    ordered = tuple(sorted(queue_datas, key=lambda data: data.broker_name))
    if order_topic_conf:
        pairs = [pair.split(":") for pair in order_topic_conf.rstrip(";").split(";")]
        try:
            nums = [(pair[0], int(pair[1])) for pair in pairs]
        except (IndexError, ValueError):
            raise ValueError(f"orderTopicConf is not BROKER:QUEUES;BROKER:QUEUES: {order_topic_conf}") from None
    else:
        writable = [data for data in ordered if data.perm & PERM_WRITE and data.broker_name in masters]
        nums = [(data.broker_name, data.write_queue_nums) for data in writable]
    queues = tuple(MessageQueue(topic, name, queue_id) for name, count in nums for queue_id in range(count))
    return TopicPublishInfo(topic, queues, ordered, order_topic=bool(order_topic_conf))
