"""The definition of a metric: name, kind, unit, labels, help text, and what to do when it rises."""

from dataclasses import dataclass
from typing import Literal

Unit = Literal[
    "batches",
    "brokers",
    "bytes",
    "calls",
    "channels",
    "clients",
    "decisions",
    "flag",
    "groups",
    "incidents",
    "lines",
    "messages",
    "messages per second",
    "notifications",
    "producers",
    "queries",
    "queues",
    "rows",
    "seconds",
    "starts",
    "threads",
    "times",
]
"""The unit of the value. Seconds and bytes are part of the name; a flag is 1 or 0."""

Label = Literal[
    "broker_name",
    "cluster",
    "consumer_group",
    "is_inhibited",
    "kind",
    "level",
    "outcome",
    "part",
    "phase",
    "query",
    "reason",
    "receiver",
    "severity",
    "state",
    "table",
    "topic",
    "verdict",
    "version",
]


@dataclass(frozen=True, eq=False)
class Metric:
    """A family of series, compared by identity. `rises` explains a rise and what to do about it."""

    name: str
    unit: Unit
    labels: tuple[Label, ...]
    says: str
    rises: str


@dataclass(frozen=True, eq=False)
class Gauge(Metric):
    """A current value."""


@dataclass(frozen=True, eq=False)
class Counter(Metric):
    """A value that only grows, from 0 at each start. Its name ends in _total."""


@dataclass(frozen=True, eq=False)
class Histogram(Metric):
    """A distribution of durations; `buckets` are the upper bounds in seconds."""

    buckets: tuple[float, ...]


SHORT = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Buckets in seconds, from a step of a batch to a batch that catches up after an outage."""

LONG = (1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
"""Buckets in seconds, from an immediate page to one that waited for its receiver."""
