"""Great Expectations on a sample: one suite, one pandas frame, the counts of each expectation.

On 5,000 rows and 20 expectations its pandas engine takes 0.3 s where its Spark engine takes 6 to 15 s, a job or more an
expectation; so samples are pandas frames (GX 1.24.1, Spark 4.2.0, 2 cores). Nothing is kept: the context is in memory,
results are not stored, progress bars and telemetry are off. Importing it takes seconds and 230 MB, so only who
validates imports this module.
"""

import os

os.environ["GX_ANALYTICS_ENABLED"] = "false"  # before the import, which reads it: nothing is sent anywhere

from collections.abc import Mapping, Sequence
from typing import Any

import great_expectations as gx
import pandas as pd
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.data_context.data_context.abstract_data_context import AbstractDataContext
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.core.expect_column_values_to_be_between import ExpectColumnValuesToBeBetween
from great_expectations.expectations.core.expect_column_values_to_be_in_set import ExpectColumnValuesToBeInSet
from great_expectations.expectations.expectation import Expectation as GxExpectation

from schemas.expectations import Expectation, InSet, Suite
from schemas.suites import SUITES
from streaming.quality.outcome import Outcome, with_sample_offsets
from streaming.system.known_error import BalancewatchError


class QualityError(BalancewatchError):
    """Great Expectations failed at a suite, which is a fault of ours."""


def open_context() -> AbstractDataContext:
    """A context in memory that shows no progress."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    return context


def as_gx(expectation: Expectation) -> GxExpectation:
    """The declaration in Great Expectations' words."""
    common: dict[str, Any] = {
        "column": expectation.column,
        "mostly": expectation.mostly,
        "severity": expectation.severity.value,
        "notes": expectation.why,
    }
    if isinstance(expectation, InSet):
        return ExpectColumnValuesToBeInSet(value_set=list(expectation.values), **common)
    return ExpectColumnValuesToBeBetween(min_value=expectation.minimum, max_value=expectation.maximum, **common)


def suite_as_gx(suite: Suite) -> gx.ExpectationSuite:
    return gx.ExpectationSuite(suite.name, expectations=[as_gx(one) for one in suite.expectations])


def frame_of(suite: Suite, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """A reading's rows; integers that may be null are Int64, words are objects."""
    return pd.DataFrame(
        {
            name: pd.array([row.get(name) for row in rows], dtype="Int64" if name in suite.integers else "object")
            for name in suite.columns
        }
    )


class Validator:
    """Validates readings, suite by suite. Not for several threads at once."""

    def __init__(self) -> None:
        self._context = open_context()
        asset = self._context.data_sources.add_pandas("sample").add_dataframe_asset("reading")
        self._batches: BatchDefinition[Any] = asset.add_batch_definition_whole_dataframe("reading")
        self._suites: dict[str, gx.ExpectationSuite] = {}
        for suite in SUITES.values():
            self.declare(suite)

    def declare(self, suite: Suite) -> None:
        """Validate readings of this name by this suite from now on."""
        self._suites[suite.name] = suite_as_gx(suite)

    def validate(self, suite: Suite, rows: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        """An outcome an expectation, in their order. Raises QualityError.

        BASIC results, for the table keeps the counts and alerts look at shares; BOOLEAN_ONLY has neither.
        """
        batch = self._batches.get_batch(batch_parameters={"dataframe": frame_of(suite, rows)})
        found = batch.validate(self._suites[suite.name], result_format="BASIC")
        outcomes = []
        for expectation, result in zip(suite.expectations, found.results, strict=True):
            if result.exception_info.get("raised_exception"):
                raise QualityError(
                    f"{suite.name}: {expectation.name}: {result.exception_info.get('exception_message')}"
                )
            reported = result.result
            outcome = Outcome(
                suite.name,
                expectation,
                bool(result.success),
                reported["element_count"] - reported["missing_count"],
                reported["unexpected_count"],
            )
            outcomes.append(with_sample_offsets(outcome, rows, suite.topic) if outcome.unexpected else outcome)
        return outcomes
