"""Which of `run`'s own alerts of a kind are open, as their table has them: what a start goes on from."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pyarrow.dataset as ds
from deltalake.exceptions import TableNotFoundError

from conf.location import Location
from schemas.tables import ALERTS
from streaming.queries.warehouse import table_path
from streaming.readable_rows import Row, read_files, read_rows
from streaming.warehouse.opening import open_delta
from udfs.life import RESOLVED


def read_open(warehouse: Location, kind: str, read: Callable[[Row], Row]) -> list[dict[str, Any]]:
    """The newest row of each incident of the kind that `read` can read and that has not resolved, times in epoch ms."""
    try:
        table = open_delta(table_path(warehouse, ALERTS.name))
    except TableNotFoundError:
        return []
    found = read_files(ALERTS.name, table, wanted=ds.field("kind") == kind)
    rows = read_rows(ALERTS.name, found, read)
    newest: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["changed_at"]):
        newest[row["incident_id"]] = {
            column: round(value.timestamp() * 1000) if isinstance(value, datetime) else value
            for column, value in row.items()
            if column != "batch_id"
        }
    return [row for row in newest.values() if row["state"] != RESOLVED]
