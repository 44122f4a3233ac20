"""The Delta tables: where they are, how they are made from their contracts, and how they are opened."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from conf.location import Location, is_store
from schemas.tables import PROPERTIES, Table
from streaming.system.private_folder import make_private
from streaming.warehouse.rows import arrow_schema

GAP = "found gap"
"""delta-kernel's words for a log whose listing lacks a commit."""

TIMES, PAUSE_SECONDS = 20, 0.05

Result = TypeVar("Result")


def open_delta(path: str) -> DeltaTable:
    """Open the table. Raises TableNotFoundError, or DeltaError for an unreadable one."""
    return whole(lambda: DeltaTable(path))


def catch_up(handle: DeltaTable) -> None:
    whole(handle.update_incremental)


def whole(act: Callable[[], Result]) -> Result:
    """Call `act`, which lists a log; repeat it while the listing has a gap.

    A listing is no snapshot: of two commits made meanwhile it may show only the second, and delta-rs refuses it. A gap
    that stays is a damaged log.
    """
    for _ in range(TIMES):
        try:
            return act()
        except DeltaError as error:
            if not is_gap(error):
                raise
            time.sleep(PAUSE_SECONDS)
    return act()


def is_gap(error: DeltaError) -> bool:
    return GAP in str(error)


def table_path(warehouse: Location, name: str) -> str:
    root = str(warehouse)
    return f"{root.rstrip('/')}/{name}" if is_store(root) else str(Path(root).expanduser().resolve() / name)


def open_table(warehouse: Location, table: Table) -> DeltaTable:
    """The table, made if it is not there; columns that this release has and it lacks are added, null in old rows."""
    path = table_path(warehouse, table.name)
    try:
        known = open_delta(path)
        present = {field.name for field in known.schema().fields}
        missing = [field for field in Schema.from_arrow(arrow_schema(table)).fields if field.name not in present]
        if missing:
            known.alter.add_columns(missing)
        return known
    except TableNotFoundError:
        if not is_store(path):
            make_private(Path(path).parent)
        return DeltaTable.create(
            path,
            schema=arrow_schema(table),
            mode="ignore",
            name=table.name,
            description=table.comment,
            configuration=dict(PROPERTIES),
            raise_if_key_not_exists=False,
        )
