"""RocketMQ's nouns as values."""

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, order=True, slots=True)
class MessageQueue:
    """A queue, ordered as MessageQueue.compareTo orders it: topic, broker_name, queue_id as a number.

    Java compares strings by UTF-16 units, Python by code points: they differ only above U+FFFF.
    """

    topic: str
    broker_name: str
    queue_id: int

    def java_string(self) -> str:
        """MessageQueue.toString(), which is also the key that CONSISTENT_HASH hashes."""
        return f"MessageQueue [topic={self.topic}, brokerName={self.broker_name}, queueId={self.queue_id}]"


def java_order(text: str) -> bytes:
    """A sort key that orders strings as String.compareTo does: by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def is_queue_name(name: str | None) -> bool:
    """Whether it is `broker:queue_id`, as all that we write is; a row from elsewhere may say anything."""
    broker_name, _, queue_id = (name or "").rpartition(":")
    return bool(broker_name) and queue_id.isascii() and queue_id.isdecimal() and len(queue_id) < 11


@lru_cache(maxsize=65536)
def queue_order(name: str) -> tuple[str, int]:
    """Sorts `broker:queue_id` by broker, then number."""
    broker_name, _, queue_id = name.rpartition(":")
    return broker_name, int(queue_id)
