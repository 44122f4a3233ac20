"""What a metric is: its name, kind, unit and labels, what it says, and what to do when it rises."""

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
    "groups",
    "incidents",
    "is so",
    "lines",
    "messages",
    "messages per second",
    "notices",
    "producers",
    "queries",
    "queues",
    "rows",
    "seconds",
    "starts",
    "threads",
    "times",
]
"""What one of it is. Seconds and bytes are in the name; "is so" is 1 or 0."""

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
    """One family of series, equal to itself alone. `rises` says what it means when it does, and what to do."""

    name: str
    unit: Unit
    labels: tuple[Label, ...]
    says: str
    rises: str


@dataclass(frozen=True, eq=False)
class Gauge(Metric):
    """It is as it is now."""


@dataclass(frozen=True, eq=False)
class Counter(Metric):
    """It only grows, from 0 at each start. Its name ends in _total."""


@dataclass(frozen=True, eq=False)
class Histogram(Metric):
    """How often it was how long; `buckets` are their upper ends, in seconds."""

    buckets: tuple[float, ...]


SHORT = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""From a step of a batch to one that works off an outage, seconds."""

LONG = (1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
"""From a page at once to one that waited for its receiver, seconds."""
