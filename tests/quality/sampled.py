"""Samples and readings for the tests, without a Kafka: what a topic's messages would be."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from schemas.events import EVENTS, ROUTES
from schemas.expectations import Suite, holds
from streaming.quality.inspection import Message, Readings, Routes, Row, UsualRates, read
from streaming.replay.stream import Enveloper
from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from tests.schemas.samples import BAD, GOOD, INGEST_TIME_MS

START_MS = 1_750_000_000_000


def message(topic: str, value: bytes | None, offset: int = 0, ingest_time_ms: int = INGEST_TIME_MS) -> Message:
    return Message(topic, 0, offset, ingest_time_ms, value, len(value or b""))


@cache
def log_of(scenario: str, seconds: int = 300) -> Mapping[str, tuple[Message, ...]]:
    """Topic to its messages of a modelled run."""
    found: dict[str, list[Message]] = {topic: [] for topic in EVENTS}
    for one in Enveloper().messages(Simulation(load_scenario(scenario), 1, START_MS).events(seconds * 1000)):
        found[one["topic"]].append(message(one["topic"], one["value"], one["offset"], one["ingest_time_ms"]))
    return {topic: tuple(messages) for topic, messages in found.items()}


def samples_of(topic: str) -> tuple[Message, ...]:
    """The good and bad messages of schemas/samples."""
    values = [one.value for one in (*GOOD, *BAD) if one.topic == topic]
    return tuple(message(topic, value, offset) for offset, value in enumerate(values))


def by_python(suite: Suite, rows: Sequence[Row]) -> list[tuple[bool, int, int]]:
    """(whether it holds, values, unexpected values) of each expectation."""
    counts = []
    for one in suite.expectations:
        values = [row[one.column] for row in rows if row.get(one.column) is not None]
        bad = sum(not one.is_expected(value) for value in values)
        counts.append((holds(one.mostly, len(values), bad), len(values), bad))
    return counts


def reading_of(topic: str, messages: Iterable[Message], routes: Iterable[Message] = ()) -> Readings:
    known = Routes()
    known.learn(one for one in routes if one.topic == ROUTES)
    return read(topic, messages, known, UsualRates())
