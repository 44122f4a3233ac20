"""Whether two contenders wrote the same flips: every row's content and count."""

from collections import Counter
from pathlib import Path

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

Flips = Counter[tuple[object, ...]]


def compare(flips: Flips, of_loop: Flips) -> str:
    """Return how the rows differ from those of the plain loop, which evaluates an item at its next attempt only.

    Rows "by the clock" say that an item is available again, at its time: without an attempt since. "other" are further
    rows of any other content, duplicates included.
    """
    more, missing = flips - of_loop, of_loop - flips
    by_clock = sum(count for (*_, start, available, changed), count in more.items() if available and start == changed)
    counts = {
        "missing": missing.total(),
        "other": more.total() - by_clock,
        "more, by the clock": by_clock,
    }
    differing = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return f"{flips.total():,} {differing or 'the same'}"


def read_rows(table: Path) -> Flips:
    """Of a Delta table; none of one that was never made."""
    try:
        rows = DeltaTable(str(table)).to_pyarrow_table(columns=list(COLUMNS))
    except TableNotFoundError:
        return Counter()
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))
