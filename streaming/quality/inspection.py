"""One look at a topic: a sample from Kafka, read in this process and validated by Great Expectations in another one."""

import json
import math
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafka import KafkaConsumer

from conf.settings import Settings
from schemas.events import PULLS, ROUTES, SEND_LATENCIES
from schemas.expectations import Expectation
from schemas.suites import SUITES, suites_of
from streaming.kafka_io.consumer import open_consumer
from streaming.quality.reading import MOST_ROUTES, Readings, Routes, UsualRates, read
from streaming.quality.sample import Bounds, Sample, read_sample
from streaming.system.known_error import BalancewatchError

ALL_ROUTES = Bounds(MOST_ROUTES, 64 << 20)
NEW_ROUTES = Bounds(2_000, 8 << 20)

VALIDATE_SECONDS = 600.0
"""Limit on one topic's validation, the start of the process included: long enough for an overloaded machine."""

MOST_OFFSETS = 5
"""Examples of unexpected values, and of their offsets, per expectation."""

MOST_CHARACTERS = 100


class QualityError(BalancewatchError):
    """The process that validates failed."""


@dataclass(frozen=True)
class Outcome:
    """The result of an expectation: `evaluated` rows with a value, `unexpected` of them, with examples."""

    suite: str
    expectation: Expectation
    is_success: bool
    evaluated: int
    unexpected: int
    observed: tuple[Any, ...] = ()
    sample_offsets: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Return the share of unexpected rows, 0 to 1."""
        return self.unexpected / self.evaluated if self.evaluated else 0.0


@dataclass(frozen=True)
class Inspected:
    """A sample and the outcome of each expectation of its topic."""

    sample: Sample
    outcomes: tuple[Outcome, ...]

    def rows(self, query: str | None, validated_ms: int) -> list[dict[str, Any]]:
        """Return rows of the table `quality`, times in epoch ms."""
        return [
            {
                "suite": outcome.suite,
                "expectation": outcome.expectation.name,
                "topic": SUITES[outcome.suite].topic,
                "severity": outcome.expectation.severity.value,
                "success": outcome.is_success,
                "evaluated": outcome.evaluated,
                "unexpected": outcome.unexpected,
                "unexpected_share": outcome.share,
                "description": str(outcome.expectation),
                "observed": [_short(value) for value in outcome.observed],
                "sample_offsets": list(outcome.sample_offsets),
                "offsets": json.dumps(self.sample.spans, sort_keys=True),
                "query": query,
                "validated_at": validated_ms,
            }
            for outcome in self.outcomes
        ]


class Inspection:
    """Validates topics, one after the other, and keeps routes and usual rates. Close it. Not thread-safe but `stop`."""

    def __init__(self, settings: Settings, bounds: Bounds | None = None, past_ms: int = 0) -> None:
        """`past_ms` is the length of a simulated past, by which events may arrive later than usual."""
        quality = settings.quality
        self._past_ms = past_ms
        self._kafka = settings.kafka
        self._bounds = bounds or Bounds(quality.sample_messages, quality.sample_bytes)
        self._consumer: KafkaConsumer | None = None
        self._process: subprocess.Popen[str] | None = None
        self._routes, self._rates = Routes(), UsualRates()
        self._knows_routes = False

    def look(self, topic: str, ends: Mapping[int, int] | None = None) -> Inspected:
        """Validate the newest messages before `ends` (partition to offset), or all. Raises KafkaError, QualityError."""
        consumer = self._consumer = self._consumer or open_consumer(self._kafka)
        if topic in (PULLS, SEND_LATENCIES):
            bounds = NEW_ROUTES if self._knows_routes else ALL_ROUTES
            self._routes.learn(read_sample(consumer, ROUTES, None, bounds, window_ms=math.inf).messages)
            self._knows_routes = True
        sample = read_sample(consumer, topic, ends, self._bounds)
        return Inspected(sample, self.validate(topic, read(sample, self._routes, self._rates)))

    def validate(self, topic: str, readings: Readings) -> tuple[Outcome, ...]:
        """Return the outcome of each expectation, with examples. Raises QualityError."""
        counts = self._ask(json.dumps({"topic": topic, "past_ms": self._past_ms, "readings": readings}))
        return tuple(
            _with_examples(Outcome(suite.name, expectation, *counted), readings[suite.name], topic)
            for suite in suites_of(topic, self._past_ms)
            for expectation, counted in zip(suite.expectations, counts[suite.name], strict=True)
        )

    def _ask(self, request: str) -> dict[str, list[tuple[bool, int, int]]]:
        process = self._process = self._process or subprocess.Popen(
            [sys.executable, "-P", "-m", "streaming.quality.validator"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="ascii",
            start_new_session=True,  # Ctrl-C is for this process, which ends the other one
        )
        timer = threading.Timer(VALIDATE_SECONDS, process.kill)
        timer.start()
        try:
            assert process.stdin is not None  # noqa: S101  # both are pipes
            assert process.stdout is not None  # noqa: S101  # the same
            process.stdin.write(request + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline() or "{}")
        except (OSError, ValueError):
            answer = {}
        finally:
            timer.cancel()
        if "counts" in answer:
            counts: dict[str, list[tuple[bool, int, int]]] = answer["counts"]
            return counts
        self.end_look()
        reason = answer.get("error", f"the process that validates ended with code {process.returncode}")
        raise QualityError(reason)

    def end_look(self) -> None:
        """End the process that validates; the next look starts another one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def stop(self) -> None:
        """Interrupt a validation, from another thread."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Disconnect from Kafka and end the process; the next look starts anew."""
        self.end_look()
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None


def _with_examples(outcome: Outcome, rows: Iterable[Mapping[str, Any]], topic: str) -> Outcome:
    """Return the outcome with the first unexpected values, and their places as topic-partition@offset."""
    if not outcome.unexpected:
        return outcome
    found: dict[str, Any] = {}
    for row in rows:
        value = row.get(outcome.expectation.column)
        if value is not None and not outcome.expectation.is_expected(value):
            found.setdefault(f"{topic}-{row['partition']}@{row['offset']}", value)
            if len(found) == MOST_OFFSETS:
                break
    return replace(outcome, observed=tuple(dict.fromkeys(found.values())), sample_offsets=tuple(found))


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"
