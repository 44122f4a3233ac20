"""What an event is held against besides its contract: the newest routes, and how many events are usual."""

import math
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any, NamedTuple

from schemas.decode import decode
from schemas.events import PULLS, ROUTES
from schemas.suites import KNOWN
from streaming.quality.sample import Message

MOST_ROUTES = 20_000
"""Topics beyond have no route here, and their queues are not judged."""

KEPT_ROUTES = 8
FOLLOW_MS = 60_000
"""Clients poll routes every 30 s; what they pulled and sent by the old one is told a moment later."""

MOST_SOURCES = 10_000
ENOUGH_LOOKS = 5
KEPT_LOOKS = 30
"""Rates that `usual` is the median of: the newest so many of a source, once there are enough."""


class Queues(NamedTuple):
    """How many queues of a broker consumers read and producers write."""

    read: int
    write: int


class Route(NamedTuple):
    """What a topic's route said from `from_ms` on, event time."""

    from_ms: int
    queues: Mapping[str, Queues]


class Routes:
    """The newest routes of each topic. One in a message that breaks its contract counts for nothing."""

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str], list[Route]] = {}

    def learn(self, messages: Iterable[Message]) -> None:
        for message in messages:
            event, reasons = decode(ROUTES, message.value, message.ingest_time_ms)
            key = None if reasons else (event.cluster, event.topic)
            if key is None or (key not in self._routes and len(self._routes) >= MOST_ROUTES):
                continue
            queues = {one.broker_name: Queues(one.read_queue_nums, one.write_queue_nums) for one in event.queues}
            known = self._routes.setdefault(key, [])
            if not known or (known[-1].queues != queues and event.event_time_ms >= known[-1].from_ms):
                known.append(Route(event.event_time_ms, queues))
                del known[:-KEPT_ROUTES]

    def word_for(self, kind: str, event: Any) -> str | None:
        """known, unknown_queue or unknown_broker, for an event of the Kafka topic `kind`; None without a route.

        Clients follow a route late: whatever was in force until FOLLOW_MS before the event will do.
        """
        words = set()
        until_ms: float = math.inf
        for route in reversed(self._routes.get((event.cluster, event.topic), [])):
            if until_ms <= event.event_time_ms - FOLLOW_MS:
                break
            words.add(_word(kind, route.queues.get(event.broker_name), event.queue_id))
            until_ms = route.from_ms
        return next((word for word in (KNOWN, "unknown_queue", "unknown_broker") if word in words), None)


def _word(kind: str, queues: Queues | None, queue_id: int) -> str:
    if queues is None:
        return "unknown_broker"
    return KNOWN if queue_id < (queues.read if kind == PULLS else queues.write) else "unknown_queue"


class UsualRates:
    """Events a second of each source, as the samples showed them; of this process only, learnt anew by the next."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, str], list[float]] = {}

    def usual(self, topic: str, cluster: str) -> float | None:
        """The median of the newest; None until there are ENOUGH_LOOKS."""
        rates = self._rates.get((topic, cluster), [])
        return median(rates) if len(rates) >= ENOUGH_LOOKS else None

    def learn(self, topic: str, rates: Mapping[str, float]) -> None:
        for cluster, rate in rates.items():
            if (topic, cluster) in self._rates or len(self._rates) < MOST_SOURCES:
                known = self._rates.setdefault((topic, cluster), [])
                known.append(rate)
                del known[:-KEPT_LOOKS]
