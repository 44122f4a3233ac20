"""A topic's route: which queues consumers share out, and which brokers they may ask for the member list."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from udfs.rocketmq.model import MessageQueue

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
