"""Looks at real samples, over 200 rounds: nothing of one is kept, and a round that kept a little would be seen."""

import gc
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import great_expectations as gx
import pytest

from schemas.events import ROUTES
from schemas.suites import SUITES
from streaming.quality.reading import read
from streaming.quality.sample import Message, Sample
from streaming.quality.surroundings import Routes, UsualRates
from streaming.quality.validator import Validator, frame_of, open_context, suite_as_gx
from tests.quality.sampled import log_of, reading_of, samples_of

SUITE = SUITES[f"{ROUTES}.brokers"]

MEGABYTE = 1 << 20


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


def growth_in_bytes(work: Callable[[], object], rounds: tuple[int, ...]) -> list[int]:
    """Bytes that came to stay from each of these rounds to the next, numpy's and pandas' buffers among them."""
    held = []
    tracemalloc.start()
    try:
        for number in range(rounds[-1] + 1):
            if number in rounds:
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
            work()
    finally:
        tracemalloc.stop()
    return [after - before for before, after in pairwise(held)]


def looker() -> Callable[[], object]:
    """What Inspection.look does with a sample: learn its routes, read it, validate a suite. Bytes new each time."""
    validator, routes, rates = Validator(), Routes(), UsualRates()
    messages = (*log_of("healthy")[ROUTES][:15], *samples_of(ROUTES))

    def look() -> None:
        fresh = tuple(_copy(message) for message in messages)
        routes.learn(fresh)
        readings = read(Sample(ROUTES, fresh), routes, rates)
        validator.validate(SUITE, readings[SUITE.name])

    return look


def _copy(message: Message) -> Message:
    return message._replace(value=None if message.value is None else bytes(bytearray(message.value)))


def test_two_hundred_batches_leave_nothing_behind(rows: list[dict[str, Any]]) -> None:
    """Less than an object for two batches, from the 50th to the 200th."""
    validator = Validator()
    assert growth(lambda: validator.validate(SUITE, rows), 50, 200) < 75


@pytest.mark.replay
def test_memory_is_flat_over_two_hundred_looks() -> None:
    """From the 50th to the 100th and from the 150th to the 200th: less than 10 KB a look."""
    early, _, late = growth_in_bytes(looker(), (50, 100, 150, 200))
    assert max(early, late) < 50 * 10_000


def test_a_megabyte_kept_each_look_would_be_seen() -> None:
    """One buffer, which counts as hardly an object."""
    look, kept = looker(), []

    def leak() -> None:
        look()
        kept.append(bytes(MEGABYTE))

    assert growth_in_bytes(leak, (2, 7))[0] >= 5 * MEGABYTE


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
