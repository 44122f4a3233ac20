"""The alerts' transitions from Delta, oldest first, or the newest state of each incident."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conf.location import Location
from schemas.tables import ALERTS
from streaming.store.store import History
from streaming.text.json_text import parse_object
from streaming.text.times import iso
from streaming.warehouse.warehouse_error import WarehouseError
from udfs.alerts.rulebook import CANARY_CLUSTER

__all__ = ["Filter", "WarehouseError", "iso", "present_alert", "read_alerts"]


@dataclass(frozen=True)
class Filter:
    """Columns that must equal these values; None asks nothing."""

    kind: str | None = None
    state: str | None = None
    cluster: str | None = None
    consumer_group: str | None = None
    topic: str | None = None


def read_alerts(warehouse: Location, asked: Filter, *, current: bool = False) -> list[dict[str, Any]]:
    """Rows of the alerts table by changed_at; with `current` the newest of each incident.

    The canary's are left out unless its cluster is asked for.

    Raises WarehouseError when there is no alerts table.
    """
    conditions = [f"{column} = ${column}" for column, value in asked.__dict__.items() if value is not None]
    params = {column: value for column, value in asked.__dict__.items() if value is not None}
    if asked.cluster is None:
        conditions.append("cluster <> $canary")
        params["canary"] = CANARY_CLUSTER
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    history = History(warehouse, [ALERTS])
    rows = f"SELECT * FROM {'alerts_now' if current else 'alerts'}{where} ORDER BY changed_at, batch_id, incident_id"
    return [present_alert(row) for row in history.rows(rows, params)]


def present_alert(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as JSON and the chats show it: times as ISO 8601, evidence and labels as objects."""
    shown = dict(row)
    for name in ("evidence", "labels"):
        shown[name] = parse_object(shown.get(name))
    for name in ("started_at", "fired_at", "changed_at"):
        shown[name] = iso(time) if (time := shown.get(name)) else None
    return shown
