"""Where one producer's sends go while a broker is slow: MQFaultStrategy and sendDefaultImpl, played in virtual time.

SYNC sends begin at an even pace whatever the earlier ones take, as from many threads, but on one thread's round robin
index. After a failed try from 5.1.4 on Java draws a new index; here it goes on, so that nothing depends on rng.
"""

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from udfs.rocketmq.fault import FaultItem, update_fault_item
from udfs.rocketmq.selection import select_one_message_queue
from udfs.rocketmq.send import Outcome, Send, SendOptions, end_try, start_send, start_try
from udfs.rocketmq.topic_publish_info import TopicPublishInfo
from udfs.rocketmq.version import NEWEST, ClientVersion

SEND_OK, TIMED_OUT = Outcome("SEND_OK"), Outcome("RemotingTimeoutException")


@dataclass(frozen=True)
class Traffic:
    """One producer's sends. Latencies are of a broker's answer, ms; the slow broker is slow from the start."""

    send_latency_fault_enable: bool = True
    client_version: ClientVersion = NEWEST
    sends_per_second: int = 100
    seconds: int = 60
    latency_ms: int = 5
    send_msg_timeout_ms: int = 3_000


@dataclass(frozen=True)
class Sends:
    """What became of the sends.

    tries        broker → sends tried there, retries included
    slow, failed sends that were tried at the slow broker; sends that ended in an exception
    avoided_ms   spans, [from, to), in which the slow broker's FaultItem was unavailable
    """

    sends: int
    tries: Mapping[str, int]
    slow: int
    failed: int
    avoided_ms: tuple[tuple[int, int], ...]

    def share(self, broker_name: str) -> float:
        """Of all tries, 0 to 1."""
        return self.tries.get(broker_name, 0) / max(1, sum(self.tries.values()))


def play_sends(info: TopicPublishInfo, slow_latency_ms: Mapping[str, int], traffic: Traffic) -> Sends:
    """Play `traffic.seconds` of sends. `slow_latency_ms`: the brokers that answer slower, with their latency.

    A try that takes longer than what is left of send_msg_timeout_ms fails then and isolates its broker.
    Raises ValueError when the topic has no queue to write to.
    """
    return _Play(info, slow_latency_ms, traffic).run()


class _Play:
    def __init__(self, info: TopicPublishInfo, slow_latency_ms: Mapping[str, int], traffic: Traffic) -> None:
        self._info, self._slow, self._traffic = info, slow_latency_ms, traffic
        self._options = SendOptions(traffic.client_version, send_msg_timeout_ms=traffic.send_msg_timeout_ms)
        self._items: dict[str, FaultItem] = {}
        self._index = self._worst = 0
        self._order = count()
        self._waiting: list[tuple[int, int, Send, Outcome]] = []
        self._tries: Counter[str] = Counter()
        self._slow_sends = self._failed = 0
        self._avoided: list[tuple[int, int]] = []

    def run(self) -> Sends:
        traffic = self._traffic
        end_ms, number = traffic.seconds * 1000, traffic.sends_per_second * traffic.seconds
        for nth in range(number):
            now_ms = nth * 1000 // traffic.sends_per_second
            self._answer(now_ms)
            self._try(start_send(self._options, now_ms), now_ms)
        self._answer(end_ms + number * self._options.send_msg_timeout_ms)  # what is on its way may end
        spans = tuple((begin, min(end, end_ms)) for begin, end in self._avoided if begin < end_ms)
        return Sends(number, dict(sorted(self._tries.items())), self._slow_sends, self._failed, spans)

    def _try(self, send: Send, now_ms: int) -> None:
        selection = select_one_message_queue(
            self._info,
            send.last_broker_name,
            self._index,
            self._items,
            now_ms,
            self._traffic.client_version,
            fault_avoidance=self._traffic.send_latency_fault_enable,
            which_item_worst=self._worst,
        )
        self._index, self._worst = selection.next_index, selection.next_which_item_worst
        self._info, self._items = selection.info, dict(selection.items)
        broker_name = selection.message_queue.broker_name
        send = start_try(send, broker_name, now_ms)
        if send.result is not None:
            self._failed += 1
            return
        self._tries[broker_name] += 1
        self._slow_sends += broker_name in self._slow and send.brokers_sent.count(broker_name) == 1
        latency_ms = self._slow.get(broker_name, self._traffic.latency_ms)
        # A timeout is noticed just after it: at its very end sendDefaultImpl would try once more, with 0 ms to go.
        took_ms, outcome = min((latency_ms, SEND_OK), (send.timeout_ms + 1, TIMED_OUT), key=lambda end: end[0])
        heapq.heappush(self._waiting, (now_ms + took_ms, next(self._order), send, outcome))

    def _answer(self, now_ms: int) -> None:
        """Everything that is answered up to now."""
        while self._waiting and self._waiting[0][0] <= now_ms:
            at_ms, _, send, outcome = heapq.heappop(self._waiting)
            self._end_try(send, outcome, at_ms)

    def _end_try(self, send: Send, outcome: Outcome, at_ms: int) -> None:
        send, update = end_try(send, outcome, at_ms)
        if self._traffic.send_latency_fault_enable:
            name = update.broker_name
            item = update_fault_item(
                self._items.get(name),
                name,
                update.current_latency_ms,
                update.isolation,
                update.reachable,
                at_ms,
                self._traffic.client_version,
            )
            self._items[name] = item
            if name in self._slow:
                self._avoid(at_ms, item.start_timestamp_ms)
        if send.result is None:
            self._try(send, at_ms)
        elif send.result != SEND_OK:
            self._failed += 1

    def _avoid(self, at_ms: int, until_ms: int) -> None:
        """From now until then; a span that is running ends or goes on as the item now says."""
        if self._avoided and self._avoided[-1][1] >= at_ms:
            self._avoided[-1] = (self._avoided[-1][0], max(at_ms, until_ms))
        elif until_ms > at_ms:
            self._avoided.append((at_ms, until_ms))
