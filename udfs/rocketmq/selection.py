"""MQFaultStrategy.selectOneMessageQueue: which queue a producer's thread sends to next, release by release.

Round robin over TopicPublishInfo's queues. Fault avoidance (sendLatencyFaultEnable) passes over brokers that are not
available; without it, and on a retry, the broker that has just failed is passed over. All read in the tags 4.0.0 to
5.3.3 and asked of the jars of 4.7.1, 4.9.8 and 5.5.0.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from udfs.rocketmq.fault import FaultItem, is_available, pick_one_at_least
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.route import TopicPublishInfo
from udfs.rocketmq.thread_local_index import absolute, increment_and_get, remainder, wrap
from udfs.rocketmq.version import NEWEST, ClientVersion, release_of

_NO_ITEMS: Mapping[str, FaultItem] = {}


class Selection(NamedTuple):
    """The queue, and everything the selection has changed for the producer's next one."""

    message_queue: MessageQueue
    next_index: int
    info: TopicPublishInfo
    items: Mapping[str, FaultItem]
    next_which_item_worst: int


def select_one_message_queue(
    info: TopicPublishInfo,
    last_broker_name: str | None,
    index: int,
    items: Mapping[str, FaultItem] = _NO_ITEMS,
    now_ms: int = 0,
    client_version: ClientVersion | str = NEWEST,
    *,
    fault_avoidance: bool = False,
    which_item_worst: int = 0,
) -> Selection:
    """The next queue for this thread. `last_broker_name`: the broker the previous try of the same send went to.

    `index` and `which_item_worst` are what the thread keeps in TopicPublishInfo's and LatencyFaultToleranceImpl's
    ThreadLocalIndex (Java ints); from 5.1.4 a retry with fault avoidance begins at a new random `index` from 0 on
    (Send.resets_index). `items` are the producer's FaultItems by broker, in the order of the rng (pick_one_at_least).

    With fault avoidance, when no queue is eligible: up to 5.1.3 the broker of pick_one_at_least, and if it has no
    queue to write to, its item is dropped and round robin continues; all but 4.9.8 write that broker and a queue number
    into the shared MessageQueue, so `info` is changed until the route changes (#7779). From 5.1.4 a reachable broker
    other than the last, then any. Raises ValueError when `info` has no queue.
    """
    if not info.ok:
        raise ValueError(f"topic {info.topic} has no queue to send to")
    turn = _Turn(info, index, items, now_ms, release_of(client_version), which_item_worst)
    if not fault_avoidance:
        queue = turn.other_than(last_broker_name)
    elif turn.release >= (5, 1, 4):
        queue = turn.filtered(last_broker_name)
    else:
        queue = turn.available(last_broker_name)
    return Selection(queue, turn.index, turn.info, turn.items, turn.which_item_worst)


class _Turn:
    """One selection: the producer's state before it, changed on the way."""

    def __init__(
        self,
        info: TopicPublishInfo,
        index: int,
        items: Mapping[str, FaultItem],
        now_ms: int,
        release: ClientVersion,
        which_item_worst: int,
    ) -> None:
        self.info, self.index, self.items, self.release = info, index, items, release
        self.which_item_worst = which_item_worst
        self._now_ms = now_ms

    def round_robin(self) -> MessageQueue:
        return self.info.message_queues[self._next_place()]

    def other_than(self, last_broker_name: str | None) -> MessageQueue:
        """Fault avoidance off: the next queue of another broker, or simply the next one."""
        if last_broker_name is None:
            return self.round_robin()
        # Up to 4.7.1 the whole search is one turn of the index, later each step is one.
        queues = self._search(self._increment()) if self.release < (4, 8, 0) else self._turns()
        return next((queue for queue in queues if queue.broker_name != last_broker_name), None) or self.round_robin()

    def filtered(self, last_broker_name: str | None) -> MessageQueue:
        """From 5.1.4: available, then reachable, both other than the last broker; then any."""
        for accepts in (self._is_available, self._is_reachable):
            for queue in self._turns():
                if queue.broker_name != last_broker_name and accepts(queue.broker_name):
                    return queue
        return self.round_robin()

    def available(self, last_broker_name: str | None) -> MessageQueue:
        """Up to 5.1.3: an available broker, then pickOneAtLeast's; an exception on the way is only logged."""
        try:
            return self._available(last_broker_name) or self._not_best() or self.round_robin()
        except IndexError:
            return self.round_robin()

    def _available(self, last_broker_name: str | None) -> MessageQueue | None:
        for queue in self._search(self._increment()):
            name = queue.broker_name
            if self.release < (4, 8, 0):  # a retry stays with the broker that failed
                may_take = last_broker_name is None or name == last_broker_name
            else:
                may_take = self.release < (5, 1, 1) or name != last_broker_name
            if may_take and self._is_available(name):
                return queue
        return None

    def _not_best(self) -> MessageQueue | None:
        broker_name = pick_one_at_least(self.items.values(), self._now_ms, self.release, self._worst())
        write_queue_nums = self.info.write_queue_nums(broker_name, self.release)
        if broker_name is None or write_queue_nums <= 0:
            self.items = {name: item for name, item in self.items.items() if name != broker_name}
            return None
        place = self._next_place()
        queue_id = remainder(self._increment(), write_queue_nums)
        queue = MessageQueue(self.info.message_queues[place].topic, broker_name, queue_id)
        if not (4, 9, 8) <= self.release < (5, 0, 0):
            queues = self.info.message_queues
            self.info = replace(self.info, message_queues=(*queues[:place], queue, *queues[place + 1 :]))
        return queue

    def _search(self, value: int) -> Iterator[MessageQueue]:
        """Every queue once from `value` on. 5.1.0 to 5.1.3 raise IndexError when the int overflows on the way."""
        for step in range(len(self.info.message_queues)):
            place = self._place(wrap(value + step))
            if place < 0:
                raise IndexError(f"no queue {place}")
            yield self.info.message_queues[place]

    def _turns(self) -> Iterator[MessageQueue]:
        for _ in self.info.message_queues:
            yield self.round_robin()

    def _next_place(self) -> int:
        return self._place(self._increment())

    def _place(self, value: int) -> int:
        size = len(self.info.message_queues)
        return remainder(value, size) if self.release >= (5, 1, 0) else max(0, remainder(absolute(value), size))

    def _increment(self) -> int:
        value, self.index = increment_and_get(self.index, self.release)
        return value

    def _worst(self) -> int:
        if len(self.items) < 2:  # pickOneAtLeast has no half to choose from
            return 0
        value, self.which_item_worst = increment_and_get(self.which_item_worst, self.release)
        return value

    def _is_available(self, broker_name: str) -> bool:
        return is_available(self.items.get(broker_name), self._now_ms, self.release)

    def _is_reachable(self, broker_name: str) -> bool:
        item = self.items.get(broker_name)
        return item is None or item.reachable
