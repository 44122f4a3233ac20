"""The alerts' transitions from Delta, oldest first, or the newest state of each incident."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from schemas.tables import ALERTS
from streaming.oncall.own_alerts import CANARY_CLUSTER
from streaming.queries.warehouse import table_path


class WarehouseError(RuntimeError):
    """There is no such table. The message names the setting."""


@dataclass(frozen=True)
class Filter:
    """Columns that must equal these values; None asks nothing."""

    kind: str | None = None
    state: str | None = None
    cluster: str | None = None
    consumer_group: str | None = None
    topic: str | None = None


def read_alerts(warehouse: Path, asked: Filter, *, current: bool = False) -> list[dict[str, Any]]:
    """Rows of the alerts table by changed_at; with `current` the newest of each incident.

    The canary's are left out unless its cluster is asked for.

    Raises WarehouseError when there is no alerts table.
    """
    path = table_path(warehouse, ALERTS.name)
    try:
        table = DeltaTable(path)
    except TableNotFoundError:
        raise WarehouseError(
            f"paths.warehouse = {str(warehouse)!r}: no alerts table there; has `run` written it?"
        ) from None
    rows = table.to_pyarrow_table()
    for column, value in asked.__dict__.items():
        if value is not None and column != "state":
            rows = rows.filter(pc.equal(rows[column], value))
    if asked.cluster is None:
        rows = rows.filter(pc.not_equal(rows["cluster"], CANARY_CLUSTER))
    ordered = sorted(_records(rows), key=lambda row: (row["changed_at"], row["batch_id"], row["incident_id"]))
    if current:
        ordered = list({row["incident_id"]: row for row in ordered}.values())
    return [row for row in ordered if asked.state is None or row["state"] == asked.state]


def _records(rows: pa.Table) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = rows.to_pylist()
    for record in records:
        for name in ("evidence", "labels"):
            record[name] = json.loads(record.get(name) or "{}")
        for name in ("started_at", "fired_at", "changed_at"):
            record[name] = iso(time) if (time := record.get(name)) else None
    return records


def iso(time: datetime) -> str:
    """2026-11-21T03:12:05.123Z"""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
