"""The collector of a worker: idle while a batch runs, blind for what is kept, and now and then thorough."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from streaming.queries import state
from streaming.queries.state import without_pauses


class Knot:
    """A cycle, which only the collector frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_a_batch_leaves_is_out_of_the_collectors_sight_and_cycles_go_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gc.collect()
    with without_pauses():
        assert not gc.isenabled()
        knot = weakref.ref(Knot())
    assert gc.isenabled()
    gc.collect()
    assert knot() is not None
    monkeypatch.setattr(state, "COLLECT_EVERY", 1)
    with without_pauses():
        pass
    assert knot() is None


def test_a_batch_that_fails_leaves_the_collector_on() -> None:
    with pytest.raises(ValueError, match="full"), without_pauses():
        raise ValueError("full")
    assert gc.isenabled()
