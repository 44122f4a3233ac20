"""Delay of the tables: from the newest event in a commit's rows to the time of the commit in its log.

This is an upper bound. It includes the collector's delay, Kafka's backlog and the batch, and a row of a time that came
by the clock, such as a FaultItem's end, is written only with the next event. The delay does not grow while nothing is
written; the age of the data does.
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
"""Tables whose newest rows carry the time of their evaluation."""

MOST_COMMITS = 8
"""Limit of commits to search back, past those of maintenance, which add no rows."""

SKEW_MS = MINUTE
"""Limit of clock skew; beyond it, as for simulated events of another day, there is no delay to report."""


@dataclass(frozen=True)
class Written:
    """A table's newest commit with new rows: its time, and its delay after its newest event."""

    at_ms: int
    lag_ms: int


def read_lags(history: History, now_ms: int) -> dict[str, Written]:
    """Return the delay by table, without unwritten tables and those beyond SKEW_MS."""
    found = {}
    for table in LIVE_TABLES:
        version = history.versions.get(table.name)
        written = None if version is None else _read_written(history.warehouse, table, version)
        if written is not None and written.lag_ms >= -SKEW_MS and written.at_ms <= now_ms + SKEW_MS:
            found[table.name] = Written(min(written.at_ms, now_ms), max(0, written.lag_ms))
    return found


def worst_lately(lags: Mapping[str, Written], lately_ms: int) -> Written | None:
    """Return the largest delay of the TIMELY tables written within `lately_ms` before the newest commit of them."""
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
    """Return the newest event time in the footers of a commit's files; None if a file is gone or has no statistics."""
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
