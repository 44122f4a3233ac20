"""The Delta tables: where they are, how they are made from their contracts, and how they are opened."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from conf.location import Location, is_store
from schemas.tables import PROPERTIES, TOMBSTONES, Table
from streaming.system.private_folder import make_private
from streaming.warehouse.delta_log import set_aside_damaged
from streaming.warehouse.rows import arrow_schema
from streaming.warehouse.warehouse_error import WarehouseError

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
    """Return whether delta-kernel reports a log whose listing lacks a commit."""
    return "found gap" in str(error)


def table_path(warehouse: Location, name: str) -> str:
    root = str(warehouse)
    return f"{root.rstrip('/')}/{name}" if is_store(root) else str(Path(root).expanduser().resolve() / name)


def open_table(warehouse: Location, table: Table) -> DeltaTable:
    """Return the table, made if it is not there. Columns that it lacks are added, null in old rows.

    In a folder, newest commits that a power cut damaged are set aside first. Raises WarehouseError for a table that
    requires columns which this release does not write.
    """
    path = table_path(warehouse, table.name)
    if not is_store(path):
        set_aside_damaged(Path(path))
    try:
        known = open_delta(path)
        fields = {field.name: field for field in known.schema().fields}
        if foreign := sorted(name for name, field in fields.items() if not field.nullable and name not in table.names):
            raise WarehouseError(
                f"{path}: this release does not write {', '.join(foreign)}, which the table requires. It belongs to "
                "another release: install that, or set another paths.warehouse. Nothing was changed"
            )
        ours = Schema.from_arrow(arrow_schema(table)).fields
        # An older process beside this one appends rows without the new columns.
        missing = [Field(field.name, field.type, metadata=field.metadata) for field in ours if field.name not in fields]
        if missing:
            known.alter.add_columns(missing)
        if TOMBSTONES not in known.metadata().configuration:  # an older release made it
            known.alter.set_table_properties({TOMBSTONES: PROPERTIES[TOMBSTONES]})
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
