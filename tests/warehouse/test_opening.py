"""A log that is listed while others commit is listed again; a table that is broken is told as it is."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from streaming.warehouse import tables
from streaming.warehouse.tables import whole


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PAUSE_SECONDS", 0.0)


class Listing:
    """Shows a gap so many times."""

    def __init__(self, gaps: int, text: str = "Expected contiguous commit files, but found gap: 7, 9") -> None:
        self.gaps, self.text, self.looks = gaps, text, 0

    def __call__(self) -> str:
        self.looks += 1
        if self.looks <= self.gaps:
            raise DeltaError(self.text)
        return "whole"


def test_a_listing_with_a_gap_is_made_again() -> None:
    assert whole(Listing(3)) == "whole"


def test_a_gap_that_stays_is_reported() -> None:
    listing = Listing(1_000)
    with pytest.raises(DeltaError, match="found gap"):
        whole(listing)
    assert listing.looks == tables.TIMES + 1


def test_anything_else_is_reported_at_once() -> None:
    listing = Listing(1, "no such file")
    with pytest.raises(DeltaError, match="no such file"):
        whole(listing)
    assert listing.looks == 1


def test_the_words_are_those_of_delta(tmp_path: Path) -> None:
    """A log without its second commit says so in the words that are looked for."""
    for number in range(3):
        write_deltalake(str(tmp_path), pa.table({"a": [number]}), mode="append")
    (tmp_path / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(DeltaError) as caught:
        DeltaTable(str(tmp_path))
    assert tables.is_gap(caught.value)
