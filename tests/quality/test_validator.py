"""The validator over 200 batches: nothing of a batch is kept, and a validator that kept results would be seen."""

import gc
from collections.abc import Callable
from typing import Any

import great_expectations as gx
import pytest

from schemas.events import ROUTES
from schemas.suites import SUITES
from streaming.quality.validator import Validator, frame_of, open_context, suite_as_gx
from tests.quality.sampled import log_of, reading_of

SUITE = SUITES[f"{ROUTES}.brokers"]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return reading_of(ROUTES, log_of("healthy")[ROUTES][:20])[SUITE.name]


def growth(work: Callable[[], object], first: int, last: int) -> int:
    """Objects that came to stay from round `first` to round `last`."""
    counts = {}
    for number in range(last + 1):
        if number in (first, last):
            gc.collect()
            counts[number] = len(gc.get_objects())
        work()
    return counts[last] - counts[first]


def test_two_hundred_batches_leave_nothing_behind(rows: list[dict[str, Any]]) -> None:
    """Less than an object for two batches, from the 50th to the 200th."""
    validator = Validator()
    assert growth(lambda: validator.validate(SUITE, rows), 50, 200) < 75


def test_stored_results_would_be_seen(rows: list[dict[str, Any]]) -> None:
    """Great Expectations' own way keeps every result: some objects a batch."""
    context = open_context()
    suite = context.suites.add(suite_as_gx(SUITE))
    asset = context.data_sources.add_pandas("sample").add_dataframe_asset("reading")
    definition = asset.add_batch_definition_whole_dataframe("reading")
    validation: Any = context.validation_definitions.add(
        gx.ValidationDefinition(name="reading", data=definition, suite=suite)
    )
    frame = frame_of(SUITE, rows)
    assert growth(lambda: validation.run(batch_parameters={"dataframe": frame}), 5, 25) > 5 * 20
