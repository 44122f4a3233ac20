"""The expected values of a column; the suites of Great Expectations are made from them.

A reading (streaming/quality/inspection.py) has one row an event, or one an element of a list in it. An expectation
skips the rows in which its column is null, and holds when at least a share `mostly` of the others is as expected.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from schemas import types as T


class Severity(StrEnum):
    """Only CRITICAL expectations open an alert. The values are those of Great Expectations."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, kw_only=True)
class InSet:
    """The column holds one of these words."""

    column: str
    values: tuple[str, ...]
    why: str
    mostly: float = 1.0
    severity: Severity = Severity.CRITICAL

    @property
    def name(self) -> str:
        return f"{self.column} in set"

    def is_expected(self, value: Any) -> bool:
        return value in self.values

    def __str__(self) -> str:
        return f"{self.column} is {' or '.join(self.values)}{_tolerance(self.mostly)}"


@dataclass(frozen=True, kw_only=True)
class Between:
    """The column holds an integer from `minimum` to `maximum`, both included; None leaves a side open."""

    column: str
    why: str
    minimum: int | None = None
    maximum: int | None = None
    mostly: float = 1.0
    severity: Severity = Severity.CRITICAL

    @property
    def name(self) -> str:
        return f"{self.column} in range"

    def is_expected(self, value: Any) -> bool:
        return (self.minimum is None or value >= self.minimum) and (self.maximum is None or value <= self.maximum)

    def __str__(self) -> str:
        sides = [f"at least {self.minimum}"] if self.minimum is not None else []
        sides += [f"at most {self.maximum}"] if self.maximum is not None else []
        return f"{self.column} is {' and '.join(sides)}{_tolerance(self.mostly)}"


Expectation = InSet | Between
"""`name` is its key in the table `quality`; `str` is its text for people."""


def _tolerance(mostly: float) -> str:
    return "" if mostly == 1 else f" in at least {mostly:.0%} of the rows"


def holds(mostly: float, evaluated: int, unexpected: int) -> bool:
    """Return whether enough rows are as expected; true without rows."""
    return not evaluated or (evaluated - unexpected) / evaluated >= mostly


@dataclass(frozen=True)
class Suite:
    """The expectations of one topic's rows.

    `lists` leads from the event to the elements that are its rows: `("consumers", "subscriptions")`; empty for the
    events themselves. `schema` is the contract of what a row is made of.
    """

    topic: str
    lists: tuple[str, ...]
    schema: T.StructType
    expectations: tuple[Expectation, ...]

    @property
    def name(self) -> str:
        """rocketmq.heartbeats, rocketmq.heartbeats.consumers"""
        return ".".join((self.topic, *self.lists))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.column for one in self.expectations))

    @cached_property
    def integers(self) -> frozenset[str]:
        """Those of the columns that hold integers; the others hold words."""
        return frozenset(one.column for one in self.expectations if isinstance(one, Between))
