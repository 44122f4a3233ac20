"""The suites as Spark's own columns: all expectations of a frame in one aggregate, one pass, one job.

`Column` in, `Column` out; they say what Great Expectations says of the same rows (tests/quality/test_engines.py). For
frames that are Spark's already, and for the query's source (streaming/quality/observed.py). There they are off unless
asked for: six counts of raw columns cost 0.7 us an event, 8 % of what draining send latencies costs, and the fields of
every hundredth event 2.3 us, 26 % (a million events, Spark 4.2.0). What the contracts say is on the hot path anyway:
the query decodes by them, and what it refuses is counted in full, from the rows of `quarantine`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from schemas.expectations import Expectation, InSet, Suite, holds
from streaming.quality.outcome import Outcome


def is_expected(expectation: Expectation, column: Column) -> Column:
    """True, false, or null where the column is."""
    if isinstance(expectation, InSet):
        return column.isin(*expectation.values)
    sides = [column >= expectation.minimum] if expectation.minimum is not None else []
    sides += [column <= expectation.maximum] if expectation.maximum is not None else []
    return reduce(Column.__and__, sides)


def counts(suite: Suite) -> list[Column]:
    """Aggregates over a reading's rows, for each expectation of the suite."""
    return counts_of(suite.expectations, F.col)


def counts_of(expectations: Sequence[Expectation], column: Callable[[str], Column], prefix: str = "") -> list[Column]:
    """Aggregates: for each expectation, in their order, the rows looked at and the unexpected ones among them."""
    return [
        count.alias(f"{prefix}{what}_{number}")
        for number, one in enumerate(expectations)
        for what, count in (
            ("rows", F.count(column(one.column))),
            ("unexpected", F.count_if(~is_expected(one, column(one.column)))),
        )
    ]


def outcomes(suite: Suite, counted: Mapping[str, Any]) -> list[Outcome]:
    """The verdicts by a row of `counts`."""
    return [
        Outcome(suite.name, one, holds(one.mostly, looked_at, unexpected), looked_at, unexpected)
        for number, one in enumerate(suite.expectations)
        for looked_at, unexpected in [(counted[f"rows_{number}"], counted[f"unexpected_{number}"])]
    ]


def schema_of_readings(suite: Suite) -> T.StructType:
    """A reading's rows as a Spark frame."""
    columns = [T.StructField("partition", T.IntegerType()), T.StructField("offset", T.LongType())]
    return T.StructType(
        [*columns]
        + [T.StructField(name, T.LongType() if name in suite.integers else T.StringType()) for name in suite.columns]
    )


def as_tuples(suite: Suite, rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """A reading's rows in the order of `schema_of_readings`."""
    return [tuple(row.get(name) for name in ("partition", "offset", *suite.columns)) for row in rows]
