"""Expectations on the hot path: Spark's own columns count, as a query reads its messages, what is not as expected.

Every n-th message of a partition is looked at (`[quality] observe_every`), for what it says by itself: its fields'
ranges and words, and its time against Kafka's. The counts ride with the batch by `observe()`: no job of their own.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from schemas.expectations import Expectation
from schemas.suites import SUITES
from streaming.quality.native import counts_of
from streaming.quality.outcome import Count

NAME = "quality"
"""Of the observed metrics in a query's progress."""

_TIMES = ("ahead_ms", "behind_ms")


class Progress(Protocol):
    """What of a batch's progress is read: pyspark's StreamingQueryProgress."""

    @property
    def batchId(self) -> int: ...  # noqa: N802  # Spark's name
    @property
    def observedMetrics(self) -> Any: ...  # noqa: N802  # Spark's name


@cache
def expectations_of_events(topic: str) -> tuple[Expectation, ...]:
    """Those of the topic's own suite that an event answers by itself, in plain columns."""
    columns = {field.name for field in _plain_fields(topic)} | set(_TIMES)
    return tuple(one for one in SUITES[topic].expectations if one.column in columns)


def observe(messages: DataFrame, topics: Sequence[str], every: int) -> DataFrame:
    """The same messages; each `every`-th of a partition is counted on its way. 0 looks at none."""
    if not every:
        return messages
    seen = {topic: f"seen_{number}" for number, topic in enumerate(topics)}
    aggregates = [
        count
        for topic, column in seen.items()
        for count in counts_of(expectations_of_events(topic), partial(_field_of, column), f"{column}_")
    ]
    looked_at = messages.select("*", *(_seen(topic, every).alias(column) for topic, column in seen.items()))
    return looked_at.observe(NAME, *aggregates).select(*messages.columns)


def _field_of(struct: str, name: str) -> Column:
    return F.col(f"{struct}.{name}")


def _seen(topic: str, every: int) -> Column:
    """A struct of the event's plain fields and its times; all null for a message that is passed over."""
    is_looked_at = (F.col("topic") == topic) & (F.pmod(F.col("offset"), F.lit(every)) == 0)
    event = F.from_json(F.when(is_looked_at, F.col("value").cast("string")), T.StructType(_plain_fields(topic)))
    ahead = event["event_time_ms"] - F.col("ingest_time_ms")
    times = (F.greatest(F.lit(0), ahead).alias("ahead_ms"), F.greatest(F.lit(0), -ahead).alias("behind_ms"))
    is_known = event["event_time_ms"].isNotNull()
    fields = [event[field.name].alias(field.name) for field in _plain_fields(topic)]
    return F.struct(*fields, *(F.when(is_known, time).alias(name) for name, time in zip(_TIMES, times, strict=True)))


def _plain_fields(topic: str) -> list[T.StructField]:
    """Those that an expectation is about and that are no lists; the event's time is always among them."""
    asked = {one.column for one in SUITES[topic].expectations} | {"event_time_ms"}
    return [
        field
        for field in SUITES[topic].schema.fields
        if field.name in asked and not isinstance(field.dataType, T.ArrayType)
    ]


class Observations:
    """What the queries' progress has told since it was taken last. Of several batches at most those Spark remembers."""

    def __init__(self, recent: Callable[[str], Iterable[Progress]]) -> None:
        """`recent` is given a query's name, and gives its newest progress, oldest first."""
        self._recent = recent
        self._taken: dict[str, int] = {}

    def take(self, name: str, topics: Sequence[str]) -> Counter[Count]:
        """The counts of the query's batches since the call before."""
        counts: Counter[Count] = Counter()
        for progress in self._recent(name):
            if progress.batchId <= self._taken.get(name, -1) or NAME not in progress.observedMetrics:
                continue
            self._taken[name] = progress.batchId
            counted = progress.observedMetrics[NAME].asDict()
            for number, topic in enumerate(topics):
                for place, one in enumerate(expectations_of_events(topic)):
                    for what in ("rows", "unexpected"):
                        counts[topic, one.name, what] += counted.get(f"seen_{number}_{what}_{place}") or 0
        return counts
