"""What is kept of one consumer group between batches: a value that the stream stores, changed in place."""

from dataclasses import dataclass, field
from typing import Protocol

from udfs.alert import Incident
from udfs.membership import Membership
from udfs.ownership import Puller, QueueWatch


class Pull(Protocol):
    """A pull request as the broker saw it (schemas/events.py)."""

    @property
    def broker_name(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def client_addr(self) -> str | None: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def commit_offset(self) -> int | None: ...
    @property
    def max_offset(self) -> int | None: ...
    @property
    def event_time_ms(self) -> int: ...


@dataclass
class TopicWatch:
    """One topic of one group, by `broker:queue_id`.

    `is_shared`: a member was seen that shares the queues out with the others. Queues of topics that nobody
    subscribes, yet somebody pulls (`assign()`), are not judged.
    """

    watched_since_ms: int
    is_shared: bool = False
    queues: dict[str, QueueWatch] = field(default_factory=dict)


@dataclass
class GroupState:
    """One group of one cluster. `is_stale`: members or routes changed since the plan was made."""

    cluster: str
    consumer_group: str
    watched_since_ms: int
    membership: Membership = field(default_factory=Membership)
    topics: dict[str, TopicWatch] = field(default_factory=dict)
    incidents: dict[str, Incident] = field(default_factory=dict)
    has_pulls: bool = False
    is_stale: bool = True

    def observe(self, pull: Pull) -> None:
        """Remember who pulled; a pull older than the newest known only lengthens its puller's span."""
        now_ms = pull.event_time_ms
        topic = self.topics.get(pull.topic)
        if topic is None:
            topic = self.topics[pull.topic] = TopicWatch(now_ms)
            self.is_stale = True
        queue = f"{pull.broker_name}:{pull.queue_id}"
        watch = topic.queues.get(queue)
        if watch is None:
            watch = topic.queues[queue] = QueueWatch(since_ms=now_ms)
        self.has_pulls = True
        key = pull.client_addr or pull.client_id or ""
        puller = watch.pullers.get(key)
        if puller is None:
            watch.pullers[key] = Puller(pull.client_id, pull.client_addr, now_ms, now_ms)
        else:
            puller.first_pull_ms = min(puller.first_pull_ms, now_ms)
            puller.last_pull_ms = max(puller.last_pull_ms, now_ms)
            puller.client_id = pull.client_id or puller.client_id
        if watch.last_pull_ms is None or now_ms >= watch.last_pull_ms:
            watch.last_pull_ms = now_ms
            watch.commit_offset = pull.commit_offset if pull.commit_offset is not None else watch.commit_offset
            watch.max_offset = pull.max_offset if pull.max_offset is not None else watch.max_offset

    def is_forgotten(self) -> bool:
        """Nothing is left of the group: no member, no incident, no queue."""
        return self.membership.is_empty() and not self.incidents and not self.topics
