"""Whether two contenders wrote the same flips: every row's content and count."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

COLUMNS = (
    "broker_name",
    "client_id",
    "client_version",
    "current_latency_ms",
    "isolation",
    "start_timestamp",
    "available",
    "changed_at",
)
LATENCY, START, AVAILABLE, CHANGED = 3, 5, 6, 7

Flips = Counter[tuple[object, ...]]


@dataclass(frozen=True)
class Agreement:
    """Rows beside those of the plain loop, which evaluates an item at its next attempt only.

    latency     rows that differ in current_latency_ms only
    by_clock    further rows that say an item is available again, at its time: without an attempt since
    missing     rows of the loop that are absent
    other       further rows of any other content, duplicates included
    """

    rows: int
    latency: int = 0
    by_clock: int = 0
    missing: int = 0
    other: int = 0

    @property
    def text(self) -> str:
        counts = {
            "missing": self.missing,
            "other": self.other,
            "with another latency": self.latency,
            "more, by the clock": self.by_clock,
        }
        return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "the same"


def compare(flips: Flips, of_loop: Flips) -> Agreement:
    more, fewer = flips - of_loop, of_loop - flips
    alike = (_without_latency(more) & _without_latency(fewer)).total()
    further = _without_latency(more) - _without_latency(fewer)
    by_clock = sum(count for row, count in further.items() if row[AVAILABLE] and row[START] == row[CHANGED])
    return Agreement(flips.total(), alike, by_clock, fewer.total() - alike, further.total() - by_clock)


def _without_latency(flips: Flips) -> Flips:
    """Rows with None for their latency, which leaves the other columns where they are."""
    bare: Flips = Counter()
    for row, count in flips.items():
        bare[(*row[:LATENCY], None, *row[LATENCY + 1 :])] += count
    return bare


def read_rows(table: Path) -> Flips:
    """Of a Delta table; none of one that was never made."""
    flips: Flips = Counter()
    try:
        paths = DeltaTable(str(table)).file_uris()
    except TableNotFoundError:
        return flips
    for path in paths:
        rows = pq.read_table(path, columns=list(COLUMNS))
        columns = [
            column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()
            for column in rows.columns
        ]
        flips.update(zip(*columns, strict=True))
    return flips
