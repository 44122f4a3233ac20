"""Looks at real samples, round after round: nothing of one is kept, and a round that kept a little would be seen."""

import gc
import tracemalloc
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest

from conf.settings import Settings
from schemas.events import ROUTES
from schemas.suites import BEHIND_MS, SUITES
from streaming.quality import inspection
from streaming.quality.event_reference import Routes, UsualRates
from streaming.quality.reading import read
from streaming.quality.sample import Message, Sample
from tests.quality.sampled import log_of, reading_of, samples_of

pytestmark = pytest.mark.xdist_group("great_expectations")  # one process imports it

SUITE = SUITES[f"{ROUTES}.brokers"]

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def validation() -> ModuleType:
    """Imported by who runs these tests: Great Expectations takes seconds, which collecting them need not."""
    return import_module("streaming.quality.validator")


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


@pytest.fixture
def look(validation: ModuleType) -> Callable[[], object]:
    """What Inspection.look does with a sample: learn its routes, read it, validate a suite. Bytes new each time."""
    validator, routes, rates = validation.Validator(), Routes(), UsualRates()
    messages = (*log_of("healthy")[ROUTES][:15], *samples_of(ROUTES))

    def look() -> None:
        fresh = tuple(_copy(message) for message in messages)
        routes.learn(fresh)
        readings = read(Sample(ROUTES, fresh), routes, rates)
        validator.validate(SUITE, readings[SUITE.name])

    return look


def _copy(message: Message) -> Message:
    return message._replace(value=None if message.value is None else bytes(bytearray(message.value)))


@pytest.mark.parametrize(("past_ms", "is_expected"), [(0, False), (2 * BEHIND_MS, True)])
def test_events_of_a_simulated_past_are_late_by_its_length_at_most(
    monkeypatch: pytest.MonkeyPatch, past_ms: int, is_expected: bool
) -> None:
    late = tuple(
        message._replace(ingest_time_ms=message.ingest_time_ms + 2 * BEHIND_MS)
        for message in log_of("healthy")[ROUTES][:5]
    )
    monkeypatch.setattr(inspection, "open_consumer", lambda _: None)
    monkeypatch.setattr(inspection, "read_sample", lambda *_, **__: Sample(ROUTES, late))
    outcomes = inspection.Inspection(Settings.load(), past_ms=past_ms).look(ROUTES).outcomes
    lateness = next(one for one in outcomes if one.expectation.column == "behind_ms")
    assert (lateness.is_success, lateness.evaluated) == (is_expected, 5)


@pytest.mark.parametrize(("first", "last"), [(5, 25), pytest.param(50, 200, marks=pytest.mark.proof)])
def test_batch_after_batch_leaves_nothing_behind(
    validation: ModuleType, rows: list[dict[str, Any]], first: int, last: int
) -> None:
    """Less than an object for two batches."""
    validator = validation.Validator()
    assert growth(lambda: validator.validate(SUITE, rows), first, last) < (last - first) / 2


@pytest.mark.replay
def test_memory_is_flat_from_the_tenth_look_to_the_twentieth(look: Callable[[], object]) -> None:
    """Less than 10 KB a look."""
    (grown,) = growth_in_bytes(look, (10, 20))
    assert grown < 10 * 10_000


@pytest.mark.proof
def test_memory_is_flat_over_two_hundred_looks(look: Callable[[], object]) -> None:
    """From the 50th to the 100th and from the 150th to the 200th: less than 10 KB a look."""
    early, _, late = growth_in_bytes(look, (50, 100, 150, 200))
    assert max(early, late) < 50 * 10_000


def test_a_megabyte_kept_each_look_would_be_seen(look: Callable[[], object]) -> None:
    """One buffer, which counts as hardly an object."""
    kept = []

    def leak() -> None:
        look()
        kept.append(bytes(MEGABYTE))

    assert growth_in_bytes(leak, (2, 7))[0] >= 5 * MEGABYTE


def test_stored_results_would_be_seen(validation: ModuleType, rows: list[dict[str, Any]]) -> None:
    """Great Expectations' own way keeps every result: some objects a batch."""
    context = validation.open_context()
    suite = context.suites.add(validation.suite_as_gx(SUITE))
    asset = context.data_sources.add_pandas("sample").add_dataframe_asset("reading")
    definition = asset.add_batch_definition_whole_dataframe("reading")
    stored = context.validation_definitions.add(
        validation.gx.ValidationDefinition(name="reading", data=definition, suite=suite)
    )
    frame = validation.frame_of(SUITE, rows)
    assert growth(lambda: stored.run(batch_parameters={"dataframe": frame}), 5, 25) > 5 * 20
