"""What is kept of one consumer group between batches: a value that the stream stores, changed in place."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from udfs.alert import Incident
from udfs.consumption import note_offsets
from udfs.explanation import Explanation
from udfs.flapping import Window
from udfs.membership import Member, Membership
from udfs.oddity import NO_PERMISSION, Pull, note_oddity
from udfs.ownership import Oddity, Puller, QueueWatch


@dataclass(slots=True)
class TopicWatch:
    """One topic of one group, by `broker:queue_id`.

    `is_shared`: a member was seen that shares the queues out with the others. Queues of topics that nobody
    subscribes, yet somebody pulls (`assign()`), are not judged. `is_planned` is False when a member's strategy cannot
    be recomputed. `read_queue_nums` is the route as it is, `nums_before` as it was before it changed at
    `route_changed_ms`, both by broker. `first_pull_ms` is since when any of its pulls is told.
    """

    watched_since_ms: int
    is_shared: bool = False
    queues: dict[str, QueueWatch] = field(default_factory=dict)
    is_planned: bool = True
    explanation: Explanation = field(default_factory=Explanation)
    read_queue_nums: dict[str, int] = field(default_factory=dict)
    nums_before: dict[str, int] = field(default_factory=dict)
    route_changed_ms: int = 0
    first_pull_ms: int | None = None


@dataclass
class GroupState:
    """One group of one cluster. `is_stale`: members or routes changed since the plan was made, last at `changed_ms`.

    `conditions` has, by name, since when something holds that is told only after a while. `first_pull_ms` is since when
    a broker is known to tell the group's pulls, `seen_pulling` are the members that were ever seen to pull, sorted.
    `windows` remember how its alerts came and went. `heard_from_ms` is when the cluster was heard again after a gap.
    `most_members` is how many ClientIds it had at once at the most; `is_replaced`: it has no member, and is one of a
    family of groups that are born and die with their processes (families).
    """

    cluster: str
    consumer_group: str
    watched_since_ms: int
    membership: Membership = field(default_factory=Membership)
    topics: dict[str, TopicWatch] = field(default_factory=dict)
    incidents: dict[str, Incident] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    conditions: dict[str, int] = field(default_factory=dict)
    first_pull_ms: dict[str, int] = field(default_factory=dict)
    seen_pulling: list[str] = field(default_factory=list)
    is_stale: bool = True
    changed_ms: int = 0
    heard_from_ms: int = 0
    most_members: int = 0
    is_replaced: bool = False

    def observe(self, pull: Pull) -> None:
        """Remember who pulled; a pull older than the newest known only lengthens its puller's span.

        A pull that the broker refused consumes nothing: it shows only that somebody asks.
        """
        now_ms = pull.event_time_ms
        if pull.offsets_only:
            self._note_offsets(pull)
            return
        topic = self.topics.get(pull.topic)
        if topic is None:
            topic = self.topics[pull.topic] = TopicWatch(now_ms)
            self.is_stale = True
        queue = f"{pull.broker_name}:{pull.queue_id}"
        watch = topic.queues.get(queue)
        if watch is None:
            watch = topic.queues[queue] = QueueWatch(since_ms=now_ms)
        first_ms = self.first_pull_ms.get(pull.broker_name)
        if first_ms is None or now_ms < first_ms:
            self.first_pull_ms[pull.broker_name] = now_ms
        topic.first_pull_ms = min(now_ms, topic.first_pull_ms or now_ms)
        if pull.pull_status == NO_PERMISSION:
            watch.oddity = watch.oddity or Oddity()
            watch.oddity.refused_ms = max(now_ms, watch.oddity.refused_ms or 0)
            return
        watch.consumption = note_offsets(watch.consumption, pull)
        key = self._puller_key(watch, pull)
        if watch.last_pull_ms is None or now_ms >= watch.last_pull_ms:
            note_oddity(watch, pull, key)
            watch.last_pull_ms = now_ms
            watch.commit_offset = pull.commit_offset if pull.commit_offset is not None else watch.commit_offset
            watch.max_offset = pull.max_offset if pull.max_offset is not None else watch.max_offset
            watch.last_client_id = pull.client_id or watch.last_client_id
        puller = watch.pullers.get(key)
        if puller is None:
            addr = key if key != (pull.client_id or "") else None
            watch.pullers[key] = Puller(pull.client_id, pull.client_addr or addr, now_ms, now_ms)
        else:
            puller.first_pull_ms = min(puller.first_pull_ms, now_ms)
            puller.last_pull_ms = max(puller.last_pull_ms, now_ms)
            puller.client_id = pull.client_id or puller.client_id

    def _puller_key(self, watch: QueueWatch, pull: Pull) -> str:
        """Who pulls: the channel, or the client where nobody can tell on which channel.

        A client is told by its address at one time and by its id at another: with one channel at the broker both are
        one, and not two that pull side by side.
        """
        view = self.membership.views.get(pull.broker_name, {})
        addr, client_id = pull.client_addr, pull.client_id
        if not addr:
            addrs = _channels_of(client_id, view)
            addrs = addrs or {each for each, known in watch.pullers.items() if known.client_id == client_id}
            return addrs.pop() if client_id and len(addrs) == 1 else client_id or ""
        if not client_id and addr in view:
            client_id = view[addr].client_id
        by_id = watch.pullers.get(client_id or "")
        if client_id and by_id is not None and not by_id.client_addr and _channels_of(client_id, view) <= {addr}:
            del watch.pullers[client_id]
            by_addr = watch.pullers.setdefault(addr, by_id)
            by_addr.client_addr = addr
            by_addr.first_pull_ms = min(by_addr.first_pull_ms, by_id.first_pull_ms)
            by_addr.last_pull_ms = max(by_addr.last_pull_ms, by_id.last_pull_ms)
        return addr

    def _note_offsets(self, pull: Pull) -> None:
        """Nobody is known to have pulled: how far a queue of the group is consumed, of those that are known."""
        watched = self.topics.get(pull.topic)
        watch = watched.queues.get(f"{pull.broker_name}:{pull.queue_id}") if watched else None
        if watch is None:
            return
        is_newest = watch.consumption is None or pull.event_time_ms >= watch.consumption.told_ms
        watch.consumption = note_offsets(watch.consumption, pull)
        if is_newest and not pull.broker_id and pull.event_time_ms >= (watch.last_pull_ms or 0):
            watch.commit_offset = pull.commit_offset if pull.commit_offset is not None else watch.commit_offset
            watch.max_offset = pull.max_offset if pull.max_offset is not None else watch.max_offset

    def forget_topic(self, topic: str) -> None:
        """Drop the topic, and since when what concerns it held."""
        self.topics.pop(topic, None)
        self.conditions = {name: ms for name, ms in self.conditions.items() if not name.endswith(f" {topic}")}

    def holds_since(self, condition: str, holds: bool, now_ms: int) -> int | None:
        """Since when the condition holds without a gap, as far as it was asked; None when it does not."""
        if not holds:
            self.conditions.pop(condition, None)
            return None
        return self.conditions.setdefault(condition, now_ms)

    def skip(self, gap_ms: int, now_ms: int) -> None:
        """Nothing was heard for `gap_ms`: what holds did not hold longer by it, and who was silent may have spoken."""
        self.conditions = {name: since_ms + gap_ms for name, since_ms in self.conditions.items()}
        self.heard_from_ms = now_ms

    def is_forgotten(self) -> bool:
        """Nothing is left of the group: no member, no incident, no queue."""
        return self.membership.is_empty() and not self.incidents and not self.topics


def _channels_of(client_id: str | None, view: Mapping[str, Member]) -> set[str]:
    return {addr for addr, member in view.items() if member.client_id == client_id}
