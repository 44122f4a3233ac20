"""One look at a topic: a sample from Kafka, read, and validated by Great Expectations."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka import KafkaConsumer

from conf.settings import Settings
from schemas.events import PULLS, ROUTES, SEND_LATENCIES
from schemas.suites import SUITES, suites_of
from streaming.kafka_io.consumer import open_consumer
from streaming.quality.event_reference import MOST_ROUTES, Routes, UsualRates
from streaming.quality.outcome import Outcome, rows_of
from streaming.quality.reading import read
from streaming.quality.sample import Bounds, Sample, read_sample

ALL_ROUTES = Bounds(MOST_ROUTES, 64 << 20)
NEW_ROUTES = Bounds(2_000, 8 << 20)


@dataclass(frozen=True)
class Inspected:
    """What was looked at, and what came of each expectation of the topic's suites."""

    sample: Sample
    outcomes: tuple[Outcome, ...]

    def rows(self, query: str | None, validated_ms: int) -> list[dict[str, object]]:
        """As the table `quality` has them."""
        return rows_of(self.outcomes, SUITES, self.sample, query, validated_ms)


class Inspection:
    """Validates topics, one after the other, and remembers routes and rates. Close it. Not thread-safe."""

    def __init__(self, settings: Settings, bounds: Bounds | None = None, past_ms: int = 0) -> None:
        """`past_ms` is how much later than usual events may arrive, because a simulated past is played."""
        quality = settings.quality
        self._past_ms = past_ms
        self._kafka = settings.kafka
        self._bounds = bounds or Bounds(quality.sample_messages, quality.sample_bytes)
        self._consumer: KafkaConsumer | None = None
        self._validator: Any = None
        self._routes, self._rates = Routes(), UsualRates()
        self._knows_routes = False

    def look(self, topic: str, ends: Mapping[int, int] | None = None) -> Inspected:
        """The newest messages before `ends` (partition to offset), or of all there are. Raises KafkaError."""
        consumer = self._consumer = self._consumer or open_consumer(self._kafka)
        if topic in (PULLS, SEND_LATENCIES):
            bounds = NEW_ROUTES if self._knows_routes else ALL_ROUTES
            self._routes.learn(read_sample(consumer, ROUTES, None, bounds, window_ms=math.inf).messages)
            self._knows_routes = True
        sample = read_sample(consumer, topic, ends, self._bounds)
        readings = read(sample, self._routes, self._rates)
        if self._validator is None:
            from streaming.quality.validator import Validator  # noqa: PLC0415  # Great Expectations: 1.2 s, 230 MB

            self._validator = Validator()
        suites = suites_of(topic, self._past_ms)
        if self._past_ms:
            for suite in suites:
                self._validator.declare(suite)
        outcomes = [one for suite in suites for one in self._validator.validate(suite, readings[suite.name])]
        return Inspected(sample, tuple(outcomes))

    def close(self) -> None:
        """Let go of Kafka; the next look connects anew."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None
