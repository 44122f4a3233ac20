"""Live events from a separate process, so that neither side waits for the other's interpreter.

`pace`: 1,000 events/s. A second has 700 send latencies, 250 pulls, 43 heartbeats, 5 routes, 2 clock events, and the
life of one pair of twins, whose duplicate ClientId makes an alert fire and resolve.

`pace_soak`: the same fleet under the loads of SOAK. A busy second has three times the events of `pace`, but as many
clock events and twins. When quiet, each channel sends a heartbeat every 30 s and each queue is pulled every 15 s; there
are 2 sends a second, a clock event every 5 s and a pair of twins every 10 s.

`pace_quiet`: 22 events/s of a healthy cluster. 16 groups of 2 clients at 2 brokers, 64 channels with a heartbeat each
30 s; 16 queues a group, each pulled every 15 s, as a long poll without messages is; a route each 30 s; 2 sends a
second; a clock event every 5 s.
"""

import heapq
import multiprocessing
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.process import BaseProcess

from conf.settings import Kafka
from streaming.kafka_io.publisher import Publisher
from streaming.text.times import wall_ms
from tests.lab.bench.events import BROKERS, CLUSTER, QUEUES_PER_BROKER, Fleet, Message, Sender, clock, heartbeat, send

GROUPS = 16
TWIN_GROUPS = 8
TWIN_BEATS = (
    (0.0, 40_001, False),
    (0.1, 40_002, False),
    (0.2, 40_001, False),
    (3.0, 40_001, True),
    (3.0, 40_002, True),
)
"""Seconds, port and whether it leaves: three heartbeats prove two channels with one ClientId, 3 s later both leave."""

Make = Callable[[int, int], Message]
"""The message of a number, which counts up, at a time in epoch ms."""

Plan = Iterator[tuple[float, float, Make]]
"""(first, every, message), seconds."""

PLAIN, QUIETED, BUSY = "plain", "quiet", "busy"

SOAK = ((PLAIN, 1 / 6), (QUIETED, 1 / 3), (BUSY, 1 / 3), (PLAIN, 1 / 6))
"""The loads of a soak and their shares of its time: the first tenth and the last have the same load."""

LIVE = Fleet("group", "orders", "10.1", BROKERS, QUEUES_PER_BROKER, 4, GROUPS, is_busy=True)
QUIET = Fleet("quiet", "quiet", "10.2", BROKERS[:2], 8, 2, GROUPS)


@contextmanager
def publishing(pace: Callable[[Kafka, float], None], kafka: Kafka, seconds: float) -> Iterator[BaseProcess]:
    """A process that publishes for `seconds`, at most until the context ends."""
    process = multiprocessing.get_context("spawn").Process(target=pace, args=(kafka, seconds), daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.terminate()


def pace(kafka: Kafka, seconds: float) -> None:
    _publish(kafka, LIVE, [(seconds, _plans()[PLAIN])])


def pace_soak(began: float, kafka: Kafka, seconds: float) -> None:
    """Publish the plain load until `began`, epoch seconds; then the loads of SOAK for `seconds`, and plain again."""
    plans = _plans()
    loads = [(PLAIN, began - time.time()), *((load, seconds * share) for load, share in SOAK), (PLAIN, 60.0)]
    _publish(kafka, LIVE, [(lasts, plans[load]) for load, lasts in loads])


def _plans() -> dict[str, list[tuple[float, float, Make]]]:
    """Return the plan of each load, with the same producers."""
    sender = Sender(1, 150).send
    second = [sender] * 700 + [_pull(LIVE)] * 250 + [_heartbeat(LIVE)] * 43 + [LIVE.route] * 5
    random.Random(1).shuffle(second)
    regular = [*_spread([_clock(LIVE)] * 2, 1.0), *_twins(1.0)]
    return {
        PLAIN: [*_spread(second, 1.0), *regular],
        BUSY: [*_spread(second, 1 / 3), *regular],
        QUIETED: [(1.0, 5.0, _clock(LIVE)), *_spread([sender], 0.5), *_healthy(LIVE), *_twins(10.0)],
    }


def pace_quiet(kafka: Kafka, seconds: float) -> None:
    plan = [
        *_spread([_clock(QUIET)], 5.0),
        *_spread([_quiet_send], 0.5),
        *_healthy(QUIET),
    ]
    _publish(kafka, QUIET, [(seconds, plan)])


def _healthy(fleet: Fleet) -> Plan:
    """A heartbeat of each channel and a route each 30 s, a pull of each queue every 15 s."""
    yield from _spread([_heartbeat(fleet)] * _channels(fleet), 30.0)
    yield from _spread([fleet.route] * GROUPS, 30.0)
    yield from _spread([_pull(fleet)] * GROUPS * fleet.queues, 15.0)


def _twins(every: float) -> Plan:
    yield from ((delay, every, partial(_twin, port, is_leaving)) for delay, port, is_leaving in TWIN_BEATS)


def _channels(fleet: Fleet) -> int:
    return GROUPS * fleet.clients * len(fleet.brokers)


def _heartbeat(fleet: Fleet) -> Make:
    """Each client of each group at each broker in turn."""

    def make(number: int, at_ms: int) -> Message:
        number, broker = divmod(number, len(fleet.brokers))
        group, client = divmod(number, fleet.clients)
        return fleet.heartbeat(group % GROUPS, client, fleet.brokers[broker], at_ms)

    return make


def _pull(fleet: Fleet) -> Make:
    """Each queue of each group in turn, at an offset that grows with the time."""
    return lambda number, at_ms: fleet.pull(number // fleet.queues % GROUPS, number % fleet.queues, at_ms // 100, at_ms)


def _clock(fleet: Fleet) -> Make:
    return lambda _, at_ms: clock(CLUSTER, fleet.brokers, at_ms)


def _quiet_send(number: int, at_ms: int) -> Message:
    return send("10.3.0.1@7000", "5.5.0", "quiet-0", QUIET.brokers[number % len(QUIET.brokers)], 0, 5, at_ms)


def _twin(port: int, is_leaving: bool, number: int, at_ms: int) -> Message:
    """A channel of the pair that starts in second `number`."""
    group = f"twins-{number % TWIN_GROUPS}"
    topic, event = heartbeat(group, "orders-0", "10.9.0.1@DEFAULT", f"10.9.0.1:{port}", BROKERS[0], at_ms)
    return topic, event | {"leaving": is_leaving}


def _spread(makes: Sequence[Make], every: float) -> Plan:
    """Messages at even distances, all again after `every` seconds; those of one maker are numbered through."""
    total, seen = Counter(makes), Counter[Make]()
    for index, make in enumerate(makes):
        yield index / len(makes) * every, every, partial(_numbered, make, seen[make], total[make])
        seen[make] += 1


def _numbered(make: Make, first: int, step: int, number: int, now_ms: int) -> Message:
    return make(first + number * step, now_ms)


def _publish(kafka: Kafka, fleet: Fleet, loads: Sequence[tuple[float, Sequence[tuple[float, float, Make]]]]) -> None:
    """Publish the fleet's routes and heartbeats, then each message of a load when it is due.

    `loads` are seconds and plans, one after the other. Ctrl-C is left to the parent process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Publisher(kafka, max_unconfirmed=1 << 30) as publisher:
        for number in range(GROUPS):
            publisher.publish(*fleet.route(number, wall_ms()))
        for number in range(_channels(fleet)):
            publisher.publish(*_heartbeat(fleet)(number, wall_ms()))
        began, end = time.monotonic(), 0.0
        for seconds, plan in loads:
            due = [(end + first, order, 0, every, make) for order, (first, every, make) in enumerate(plan)]
            heapq.heapify(due)
            end += seconds
            while (elapsed := time.monotonic() - began) < end:
                while due[0][0] <= elapsed:
                    at, order, number, every, make = due[0]
                    publisher.publish(*make(number, wall_ms()))
                    heapq.heapreplace(due, (at + every, order, number + 1, every, make))
                time.sleep(0.002)
        publisher.flush()
