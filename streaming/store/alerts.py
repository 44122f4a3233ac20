"""Rows of the alerts table: transitions, oldest first, or the newest row of each incident."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conf.location import Location
from schemas.tables import ALERTS
from streaming.store.store import History
from streaming.text.result import parse_object
from streaming.text.suggestions import MOST_NAMED, suggest
from streaming.text.times import iso
from udfs.alerts.rulebook import CANARY_CLUSTER


@dataclass(frozen=True)
class Filter:
    """Values that columns must have; None means any."""

    kind: str | None = None
    state: str | None = None
    cluster: str | None = None
    consumer_group: str | None = None
    topic: str | None = None


def read_alerts(warehouse: Location, asked: Filter, *, current: bool = False) -> list[dict[str, Any]]:
    """Return rows of the alerts table by changed_at; with `current` the newest of each incident.

    Canary alerts are omitted unless the filter names their cluster. Raises WarehouseError without an alerts table.
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


class UnknownIncidentError(ValueError):
    """No incident, or several, have this id or prefix. The message names the nearest."""


def find_incident(history: History, text: str) -> str:
    """Return the id of the incident with this id or unique prefix; of several, the only open one.

    Raises UnknownIncidentError.
    """
    found = history.rows(
        "SELECT incident_id, state FROM alerts_now WHERE starts_with(incident_id, $text) ORDER BY 1 LIMIT 100",
        {"text": text},
    )
    ids = [row["incident_id"] for row in found]
    for candidates in ([text], ids, [row["incident_id"] for row in found if row["state"] != "RESOLVED"]):
        if text and len(candidates) == 1 and candidates[0] in ids:
            return str(candidates[0])
    if text and ids:
        more = f" and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else ""
        raise UnknownIncidentError(f"INCIDENT {text!r} is a prefix of several: {', '.join(ids[:MOST_NAMED])}{more}")
    known = history.rows("SELECT DISTINCT incident_id FROM alerts ORDER BY incident_id DESC LIMIT 10000")
    hint = suggest(text, [row["incident_id"] for row in known])
    raise UnknownIncidentError(f"INCIDENT {text!r} is not in the alerts table{hint}")


def present_alert(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row as JSON and chats show it: times as ISO 8601, evidence and labels as objects."""
    shown = dict(row)
    for name in ("evidence", "labels"):
        shown[name] = parse_object(shown.get(name))
    for name in ("started_at", "fired_at", "changed_at"):
        shown[name] = iso(time) if (time := shown.get(name)) else None
    return shown
