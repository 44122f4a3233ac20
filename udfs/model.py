"""RocketMQ's nouns as values."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True, slots=True)
class MessageQueue:
    """A queue, ordered as MessageQueue.compareTo orders it: topic, broker_name, queue_id as a number.

    Java compares strings by UTF-16 units, Python by code points: they differ only above U+FFFF.
    """

    topic: str
    broker_name: str
    queue_id: int
