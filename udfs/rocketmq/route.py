"""A topic's route: the queues that consumers share out and producers write to, and the brokers to ask for members."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.version import NEWEST, ClientVersion, release_of

PERM_READ, PERM_WRITE = 4, 2


@dataclass(frozen=True)
class QueueData:
    """One broker's queues of a topic (RocketMQ's QueueData)."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int


@dataclass(frozen=True)
class Route:
    """TopicRouteData, as far as balancing goes. `event_time_ms` orders two of them.

    `has_queue_mapping`: a static topic, of which clients hold other queues than these.
    `without_master` are brokers of which only slaves serve: they can be read, not written, and grant no order locks.
    """

    topic: str
    queues: tuple[QueueData, ...]
    event_time_ms: int = field(compare=False, default=0)
    without_master: tuple[str, ...] = ()
    order_topic: bool = False
    has_queue_mapping: bool = False

    def readable_queues(self) -> list[MessageQueue]:
        """What MQClientInstance.topicRouteData2TopicSubscribeInfo gives consumers, sorted as they sort it."""
        return self._queues(lambda data: range(data.read_queue_nums if data.perm & PERM_READ else 0))

    def write_only_queues(self) -> list[MessageQueue]:
        """Queues that producers fill and consumers are not given: writeQueueNums > readQueueNums, or no PERM_READ."""
        return self._queues(
            lambda data: range(
                data.read_queue_nums if data.perm & PERM_READ else 0,
                data.write_queue_nums if data.perm & PERM_WRITE else 0,
            )
        )

    def _queues(self, ids: Callable[[QueueData], range]) -> list[MessageQueue]:
        return sorted(
            MessageQueue(self.topic, data.broker_name, queue_id) for data in self.queues for queue_id in ids(data)
        )

    def broker_names(self) -> set[str]:
        return {data.broker_name for data in self.queues}

    def read_nums(self) -> dict[str, int]:
        """By broker, the queues that consumers share out."""
        return {data.broker_name: data.read_queue_nums for data in self.queues}

    def most_queues(self) -> dict[str, int]:
        """Broker → how many queue numbers can exist there: write-only and read-only ones count. None of a static topic,
        whose clients hold other numbers.
        """
        most: dict[str, int] = {}
        for data in () if self.has_queue_mapping else self.queues:
            count = max(data.read_queue_nums, data.write_queue_nums)
            most[data.broker_name] = max(count, most.get(data.broker_name, 0))
        return most


def route_of_nums(topic: str, nums: Mapping[str, int]) -> Route:
    """Return a route with `nums` readable and writable queues, a number per broker."""
    return Route(topic, tuple(QueueData(name, count, count, PERM_READ | PERM_WRITE) for name, count in nums.items()))


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
