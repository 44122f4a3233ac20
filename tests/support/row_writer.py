"""A test's few rows in a warehouse, by the product's own commits, in a fifth of the time of its writer, and its alerts.

All tables are there, as after the start of `run`: they are made once a process and copied. Opened are those that rows
are appended to.
"""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import Transaction

from conf.location import Location
from schemas.tables import ALERTS, TABLES, Table
from streaming.store.alerts import present_alert
from streaming.store.store import History
from streaming.warehouse.appender import Appender
from streaming.warehouse.tables import open_table, table_path
from udfs.alerts.rulebook import CANARY_CLUSTER


def create_tables(warehouse: Path) -> None:
    """Create the missing tables."""
    for table in TABLES.values():
        open_table(warehouse, table)


@cache
def _empty() -> Path:
    """The tables without a row."""
    folder = Path(tempfile.mkdtemp(prefix="balancewatch-empty-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    create_tables(folder)
    return folder


class RowWriter:
    """A Writer for `append_rows`. Tables that are there already stay as they are."""

    def __init__(self, warehouse: Path) -> None:
        self._warehouse = warehouse
        for name in TABLES:
            if not (warehouse / name).exists():
                shutil.copytree(_empty() / name, warehouse / name)

    def append(self, table: Table, rows: pa.Table, app_id: str, batch_id: int) -> int | None:
        path, handle = table_path(self._warehouse, table.name), open_table(self._warehouse, table)
        return Appender(path, handle).append(rows, Transaction(app_id, batch_id))


def read_alerts(warehouse: Location, **equal: str) -> list[dict[str, Any]]:
    """Return the rows of the alerts table with these values, by changed_at; canaries only by their cluster."""
    conditions = [f"{column} = ${column}" for column in equal]
    if "cluster" not in equal:
        conditions.append(f"cluster <> '{CANARY_CLUSTER}'")
    rows = f"FROM alerts WHERE {' AND '.join(conditions)} ORDER BY changed_at, batch_id, incident_id"
    return [present_alert(row) for row in History(warehouse, [ALERTS]).rows(rows, equal)]
