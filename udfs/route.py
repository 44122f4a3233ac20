"""A topic's route: which queues consumers share out, and which brokers they may ask for the member list."""

from dataclasses import dataclass, field

from udfs.model import MessageQueue

PERM_READ = 4


@dataclass(frozen=True)
class QueueData:
    """One broker's queues of a topic (RocketMQ's QueueData)."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int


@dataclass(frozen=True)
class Route:
    """TopicRouteData, as far as balancing goes. `event_time_ms` orders two of them."""

    topic: str
    queues: tuple[QueueData, ...]
    event_time_ms: int = field(compare=False, default=0)

    def readable_queues(self) -> list[MessageQueue]:
        """What MQClientInstance.topicRouteData2TopicSubscribeInfo gives consumers, sorted as they sort it."""
        return sorted(
            MessageQueue(self.topic, data.broker_name, queue_id)
            for data in self.queues
            if data.perm & PERM_READ
            for queue_id in range(data.read_queue_nums)
        )

    def broker_names(self) -> set[str]:
        return {data.broker_name for data in self.queues}

    def has_queue(self, broker_name: str, queue_id: int) -> bool:
        """Whether the queue number can exist: write-only and read-only queues count, static topics' ids do not."""
        return any(
            data.broker_name == broker_name and queue_id < max(data.read_queue_nums, data.write_queue_nums)
            for data in self.queues
        )
