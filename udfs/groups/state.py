"""What is kept of one consumer group between batches: a value that the stream stores, changed in place."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from udfs.alerts.alert import Incident
from udfs.alerts.life import Window
from udfs.alerts.rules import LONG_POLL_MS
from udfs.groups.plan import Inference
from udfs.groups.queue_state import (
    HAND_OVER_MS,
    PULL_BATCH,
    TURN_MS,
    Pull,
    PullAnomaly,
    Puller,
    QueueState,
    note_offsets,
)
from udfs.groups.verdict_reason import ASSIGNED, BROKER
from udfs.rocketmq.membership import Membership
from udfs.rocketmq.own_names import REVIVE_GROUP


@dataclass(slots=True)
class TopicState:
    """One topic of one group.

    is_shared         a member was seen that subscribes the topic and shares its queues out with the others
    queues            `broker:queue_id` → what is known of the queue
    is_planned        False when a member's strategy cannot be recomputed
    inference         what the pulls showed of the members' strategies and views
    read_queue_nums   broker → its read queues, by the route as it is
    nums_before       the same by the route as it was until `route_changed_ms`
    first_pull_ms     since when any pull of the topic is reported
    unjudged          why its queues are not shared out, by the members that consume it otherwise; None without any
    is_mixed          members subscribed the topic by different expressions at the last evaluation
    """

    watched_since_ms: int
    is_shared: bool = False
    queues: dict[str, QueueState] = field(default_factory=dict)
    is_planned: bool = True
    inference: Inference = field(default_factory=Inference)
    read_queue_nums: dict[str, int] = field(default_factory=dict)
    nums_before: dict[str, int] = field(default_factory=dict)
    route_changed_ms: int = 0
    first_pull_ms: int | None = None
    is_mixed: bool = False
    unjudged: str | None = None

    @property
    def is_subscribed(self) -> bool:
        """Whether a member was seen that subscribes the topic, however it consumes, or the broker consumes it."""
        return self.is_shared or self.unjudged not in (None, ASSIGNED)


@dataclass
class GroupState:
    """One group of one cluster.

    incidents      `KIND SUBJECT` → the incident that is open
    windows        likewise, how the alert came and went
    conditions     name → since when something holds that is reported only after a while
    first_pull_ms  broker → since when it is known to report the group's pulls
    seen_pulling   the members that were ever seen to pull, sorted
    is_stale       members or routes changed since the plan was made
    changed_ms     when they last did
    data_from_ms   when the cluster gave data again after a gap
    most_members   how many ClientIds the group had at once at the most
    is_replaced    the group has no member, and its family of groups is born and dies with processes (families.py)
    backlogs       topic → queue → the messages of its newest reported backlog, and when it was reported (backlog.py)
    """

    cluster: str
    consumer_group: str
    watched_since_ms: int
    membership: Membership = field(default_factory=Membership)
    topics: dict[str, TopicState] = field(default_factory=dict)
    incidents: dict[str, Incident] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    conditions: dict[str, int] = field(default_factory=dict)
    first_pull_ms: dict[str, int] = field(default_factory=dict)
    seen_pulling: list[str] = field(default_factory=list)
    is_stale: bool = True
    changed_ms: int = 0
    data_from_ms: int = 0
    most_members: int = 0
    is_replaced: bool = False
    backlogs: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)

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
            topic = self.topics[pull.topic] = TopicState(now_ms)
            self.is_stale = True
        queue = f"{pull.broker_name}:{pull.queue_id}"
        queue_state = topic.queues.get(queue)
        if queue_state is None:
            queue_state = topic.queues[queue] = QueueState(since_ms=now_ms)
        first_ms = self.first_pull_ms.get(pull.broker_name)
        if first_ms is None or now_ms < first_ms:
            self.first_pull_ms[pull.broker_name] = now_ms
        topic.first_pull_ms = min(now_ms, topic.first_pull_ms or now_ms)
        if pull.pull_status == NO_PERMISSION:
            queue_state.anomaly = queue_state.anomaly or PullAnomaly()
            queue_state.anomaly.refused_ms = max(now_ms, queue_state.anomaly.refused_ms or 0)
            return
        queue_state.consumption = note_offsets(queue_state.consumption, pull)
        key = self.puller_key(queue_state, pull)
        if queue_state.last_pull_ms is None or now_ms >= queue_state.last_pull_ms:
            note_anomaly(queue_state, pull, key)
            queue_state.last_pull_ms = now_ms
            queue_state.take_offsets(pull.commit_offset, pull.max_offset)
            queue_state.last_client_id = pull.client_id or queue_state.last_client_id
        puller = queue_state.pullers.get(key)
        if puller is None:
            addr = key if key != (pull.client_id or "") else None
            queue_state.pullers[key] = Puller(pull.client_id, pull.client_addr or addr, now_ms, now_ms)
        else:
            puller.first_pull_ms = min(puller.first_pull_ms, now_ms)
            puller.last_pull_ms = max(puller.last_pull_ms, now_ms)
            puller.client_id = pull.client_id or puller.client_id

    def puller_key(self, queue_state: QueueState, pull: Pull) -> str:
        """Return the puller's key: its channel, or its ClientId if the channel is unknown.

        A client may be reported by its address in one event and by its ClientId in another. A pull without an address
        is no evidence of a second channel: it counts as the known puller's of this ClientId.
        """
        view = self.membership.views.get(pull.broker_name, {})
        addr, client_id = pull.client_addr, pull.client_id
        if not addr:
            pullers = queue_state.pullers
            known = [each for each, one in pullers.items() if one.client_addr and one.client_id == client_id]
            if client_id and known:
                return max(known, key=lambda each: pullers[each].last_pull_ms)
            addrs = {each for each, member in view.items() if member.client_id == client_id}
            addrs = addrs or {each for each, one in pullers.items() if one.client_id == client_id}
            return addrs.pop() if client_id and len(addrs) == 1 else client_id or ""
        if not client_id and addr in view:
            client_id = view[addr].client_id
        by_id = queue_state.pullers.get(client_id or "")
        if client_id and by_id is not None and not by_id.client_addr:
            del queue_state.pullers[client_id]
            by_addr = queue_state.pullers.setdefault(addr, by_id)
            by_addr.client_addr = addr
            by_addr.first_pull_ms = min(by_addr.first_pull_ms, by_id.first_pull_ms)
            by_addr.last_pull_ms = max(by_addr.last_pull_ms, by_id.last_pull_ms)
        return addr

    def _note_offsets(self, pull: Pull) -> None:
        """Keep how far a known queue of the group is consumed; who pulls it is not reported."""
        name = f"{pull.broker_name}:{pull.queue_id}"
        topic_state = self.topics.get(pull.topic)
        if self.consumer_group == REVIVE_GROUP:
            topic_state = self.topics.setdefault(pull.topic, TopicState(pull.event_time_ms, unjudged=BROKER))
            self.is_stale |= name not in topic_state.queues
            topic_state.queues.setdefault(name, QueueState(since_ms=pull.event_time_ms))
        queue_state = topic_state.queues.get(name) if topic_state else None
        if queue_state is None:
            return
        is_newest = queue_state.consumption is None or pull.event_time_ms >= queue_state.consumption.reported_ms
        queue_state.consumption = note_offsets(queue_state.consumption, pull)
        if is_newest and not pull.broker_id and pull.event_time_ms >= (queue_state.last_pull_ms or 0):
            since_ms = max(queue_state.last_pull_ms or 0, queue_state.share_since_ms)
            if queue_state.is_below(pull.commit_offset) and pull.event_time_ms < since_ms + HAND_OVER_MS:
                queue_state.take_offsets(None, pull.max_offset)  # it may be the next owner's: later ones will show it
            else:
                note_regression(queue_state, pull, "")
                queue_state.take_offsets(pull.commit_offset, pull.max_offset)

    def queue_states(self) -> Iterator[QueueState]:
        return (queue_state for topic in self.topics.values() for queue_state in topic.queues.values())

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
        """There were no data for `gap_ms`: what holds did not hold longer by it, and who was silent may have spoken."""
        self.conditions = {name: since_ms + gap_ms for name, since_ms in self.conditions.items()}
        self.data_from_ms = now_ms

    def is_forgotten(self) -> bool:
        return self.membership.is_empty() and not self.incidents and not self.topics


NO_PERMISSION = "NO_PERMISSION"
"""ResponseCode.NO_PERMISSION: consumeEnable is false for the group, or the topic may not be read."""


def note_anomaly(queue_state: QueueState, pull: Pull, key: str) -> None:
    """Bring a queue's anomaly up to a pull that is newer than all before. `queue_state` is as it was before that pull,
    `key` is its puller's.
    """
    note_regression(queue_state, pull, key)
    pullers = queue_state.pullers
    is_turn = key != max(pullers, key=lambda known: pullers[known].last_pull_ms, default=key)  # another pulled last
    if not (queue_state.anomaly or pull.broker_id or is_turn):
        return
    odd = queue_state.anomaly = queue_state.anomaly or PullAnomaly()
    if is_turn and odd.turned_ms + TURN_MS <= pull.event_time_ms:
        odd.turns, odd.turned_ms = odd.turns + 1, pull.event_time_ms
    elif not is_turn and odd.turned_ms + HAND_OVER_MS < pull.event_time_ms:
        odd.turns = 0
    if not pull.broker_id:
        odd.slave_since_ms = None
    elif odd.slave_since_ms is None:
        odd.slave_since_ms = pull.event_time_ms
    odd.is_slave_suggested = bool(pull.suggest_broker_id)


def note_regression(queue_state: QueueState, pull: Pull, key: str) -> None:
    """Note that the committed offset fell, or is back. Offsets that are newer than all before; `key` as above.

    A queue that ends before an offset that was committed is another one: its topic was made anew, or its broker's store
    was wiped. Its offsets begin anew. A slave may know less of the same queue.
    """
    odd = queue_state.anomaly
    fell_from = odd.high_offset if odd is not None and odd.regressed_ms is not None else 0
    high_offset = max(queue_state.commit_offset or 0, fell_from)
    is_another = not pull.broker_id and pull.max_offset is not None and pull.max_offset < high_offset
    if not is_another and _is_regressed(queue_state, pull, key):
        odd = queue_state.anomaly = odd or PullAnomaly()
        odd.high_offset, odd.low_offset = high_offset, pull.commit_offset or 0
        odd.regressed_ms = pull.event_time_ms
    elif odd is not None and (is_another or (pull.commit_offset or 0) >= fell_from):
        odd.regressed_ms = None


def _is_regressed(queue_state: QueueState, pull: Pull, key: str) -> bool:
    """Whether the group's offset fell. Two clients that hand the queue over, or both pull it, commit by turns.

    A client that comes back on a new channel, after longer than a long poll, is one client; no more than a batch falls
    by what its last life committed late.
    """
    if (
        pull.commit_offset is None
        or queue_state.commit_offset is None
        or pull.commit_offset >= queue_state.commit_offset
    ):
        return False
    if pull.commit_offset + PULL_BATCH >= queue_state.commit_offset and queue_state.pullers.keys() - {key}:
        return False
    return not any(
        puller.last_pull_ms + (LONG_POLL_MS if puller.client_id == pull.client_id else HAND_OVER_MS)
        > pull.event_time_ms
        for other, puller in queue_state.pullers.items()
        if other != key
    )
