"""How far the tables are behind the events: from the newest event of a commit's rows to the commit, as its log has it.

It is at most as much as this: it holds a collector's delay, Kafka's backlog and the batch, which tables do not tell
apart; and a row may tell of a moment that came by the clock alone, such as a FaultItem's end, and be written with the
next event. While nothing is written it does not grow: that is the age of the data.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from conf.location import Location
from schemas.tables import Table
from streaming.store.freshness import LIVE_TABLES
from streaming.store.store import History
from streaming.text.times import MINUTE, to_ms
from streaming.warehouse.delta_log import Commit, read_commit
from streaming.warehouse.table_store import read_file
from streaming.warehouse.tables import table_path

TIMELY = ("alerts", "assignments", "memberships")
"""Tables whose newest rows are of when they were judged."""

MOST_COMMITS = 8
"""Of maintenance, which adds nothing, are passed over."""

SKEW_MS = MINUTE
"""Clocks further apart than this cannot be compared: events made up for another day are not behind or ahead."""


@dataclass(frozen=True)
class Written:
    """A table's newest commit with new rows: when it was made, and how long after the newest event in it."""

    at_ms: int
    lag_ms: int


def read_lags(history: History, now_ms: int) -> dict[str, Written]:
    """By table. Without those that nobody has written, or of which the clocks do not fit together."""
    found = {}
    for table in LIVE_TABLES:
        version = history.versions.get(table.name)
        written = None if version is None else _read_written(history.warehouse, table, version)
        if written is not None and written.lag_ms >= -SKEW_MS and written.at_ms <= now_ms + SKEW_MS:
            found[table.name] = Written(min(written.at_ms, now_ms), max(0, written.lag_ms))
    return found


def worst_lately(lags: Mapping[str, Written], lately_ms: int) -> Written | None:
    """The largest lag of the TIMELY tables that were written within `lately_ms` of the one that was written last."""
    timely = [lags[name] for name in TIMELY if name in lags]
    newest_ms = max((one.at_ms for one in timely), default=0)
    return max((one for one in timely if one.at_ms >= newest_ms - lately_ms), key=lambda one: one.lag_ms, default=None)


def _read_written(warehouse: Location, table: Table, version: int) -> Written | None:
    folder = table_path(warehouse, table.name)
    for number in range(version, max(version - MOST_COMMITS, -1), -1):
        commit = read_commit(folder, number)
        if commit is None:
            return None
        if commit.appended:
            newest_ms = _newest_event(folder, table, commit)
            return None if newest_ms is None else Written(commit.at_ms, commit.at_ms - newest_ms)
    return None


def _newest_event(folder: str, table: Table, commit: Commit) -> int | None:
    """By the footers of its files; None where one was compacted and vacuumed meanwhile, or says nothing."""
    newest = []
    for file in commit.appended:
        try:
            footer = pq.read_metadata(BytesIO(read_file(folder, file)[0]))
        except (OSError, pa.ArrowInvalid):
            return None
        column = footer.schema.names.index(table.time)
        groups = [footer.row_group(number).column(column) for number in range(footer.num_row_groups)]
        newest += [one.statistics.max for one in groups if one.is_stats_set and one.statistics.has_min_max]
    return max((to_ms(time) for time in newest if time is not None), default=None)
