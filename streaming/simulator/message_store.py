"""What brokers keep of messages: each queue's end and the pulls held at it, and how long storing one takes (B6)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from streaming.simulator.parts import Broker
from streaming.simulator.world import Alarm
from udfs.rocketmq.commit_log import Put, StoreConfig, put_message
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.version import parse_client_version

GROUP_COMMIT_MS = 10
"""GroupCommitService takes up what waits to be flushed this often."""


@dataclass(eq=False, slots=True)
class Queue:
    """A queue's end, the tag of its messages, and the pull requests its broker holds until one comes."""

    mq: MessageQueue
    max_offset: int
    tag: str = ""
    held: list[Alarm] = field(default_factory=list)

    def append(self, messages: int = 1) -> None:
        """Store messages."""
        self.max_offset += messages
        if self.held:
            self.release()

    def release(self) -> None:
        """Answer every pull that is held."""
        held, self.held = self.held, []
        for alarm in held:
            alarm.ring()


class MessageStore:
    """Every queue there ever was, by MessageQueue. Queues of a topic that shrank keep their messages."""

    def __init__(self, random: Random, tags: Mapping[str, Sequence[str]]) -> None:
        """`tags` are those of each topic's messages, queue by queue in turn."""
        self._random, self._tags = random, tags
        self._queues: dict[MessageQueue, Queue] = {}

    def queue(self, mq: MessageQueue) -> Queue:
        """The queue, made when it is first asked for, with some history."""
        queue = self._queues.get(mq)
        if queue is None:
            tags = self._tags.get(mq.topic, ())
            tag = tags[mq.queue_id % len(tags)] if tags else ""
            queue = self._queues[mq] = Queue(mq, self._random.randrange(1_000, 1_000_000), tag)
        return queue

    def max_offset(self, mq: MessageQueue) -> int:
        """A queue's end. Raises KeyError for a queue that never was."""
        return self._queues[mq].max_offset

    def of_broker(self, broker_name: str) -> Iterator[Queue]:
        """The queues of one broker."""
        return (queue for mq, queue in self._queues.items() if mq.broker_name == broker_name)


class CommitLog:
    """One broker's way to store a message. `extra_latency_ms` slows it down, as a full disk or page cache does."""

    def __init__(self, of: Broker) -> None:
        self.extra_latency_ms = 0
        self._config = StoreConfig(of.flush_disk_type, of.broker_role)
        self._broker_version = parse_client_version(of.broker_version)
        self._is_plain = self._config == StoreConfig()

    def put(self, random: Random, has_slave: Callable[[], bool]) -> Put:
        """A message's answer, and how long after the request's arrival it comes."""
        append_ms = 1 + int(random.expovariate(0.25))
        if self.extra_latency_ms:
            append_ms += int(self.extra_latency_ms * (0.8 + 0.4 * random.random()))
        if self._is_plain:
            return Put("SEND_OK", append_ms)
        flush_ms = int(random.random() * GROUP_COMMIT_MS + random.expovariate(0.2))
        replica_ms = 1 + int(random.expovariate(0.5)) if has_slave() else None
        return put_message(self._config, append_ms, flush_ms, replica_ms, broker_version=self._broker_version)
