"""Rows of the alerts table: the newest of each incident, and incidents by the beginning of their id."""

from collections.abc import Mapping
from typing import Any

from conf.location import Location
from schemas.tables import ALERTS
from streaming.store.store import History
from streaming.text.language import localize
from streaming.text.result import parse_object
from streaming.text.suggestions import MOST_NAMED, suggest
from streaming.text.times import iso
from udfs.alerts.phrase import Words, phrase
from udfs.alerts.rulebook import CANARY_CLUSTER


def read_current_alerts(warehouse: Location, state: str | None = None) -> list[dict[str, Any]]:
    """Return the newest row of each incident, or of those in `state`, by changed_at, without canaries.

    Raises WarehouseError without an alerts table.
    """
    rows = History(warehouse, [ALERTS]).rows(
        "FROM alerts_now WHERE cluster <> $canary AND state = coalesce($state, state) "
        "ORDER BY changed_at, batch_id, incident_id",
        {"canary": CANARY_CLUSTER, "state": state},
    )
    return [present_alert(row) for row in rows]


class UnknownIncidentError(ValueError):
    """No incident, or several, have this id or prefix. The message names the nearest."""

    def __init__(self, sentence: Words) -> None:
        super().__init__(localize(sentence))


def find_incident(history: History, text: str) -> str:
    """Return the id of the incident with this id or unique prefix; of several, the only open one.

    Raises UnknownIncidentError.
    """
    found = history.rows(
        "SELECT incident_id, state, kind FROM alerts_now WHERE starts_with(incident_id, $text) ORDER BY 1 LIMIT 100",
        {"text": text},
    )
    ids = [row["incident_id"] for row in found]
    for candidates in ([text], ids, [row["incident_id"] for row in found if row["state"] != "RESOLVED"]):
        if text and len(candidates) == 1 and candidates[0] in ids:
            return str(candidates[0])
    if text and ids:
        known = [f"{row['incident_id']} ({row['state']} {row['kind']})" for row in found[:MOST_NAMED]]
        more = phrase(" and {number} more", number=len(ids) - MOST_NAMED) if len(ids) > MOST_NAMED else ""
        several = phrase("INCIDENT {text!r} is a prefix of several: {known}{more}", text=text, more=more)
        raise UnknownIncidentError(several.given(known=", ".join(known)))
    others = history.rows("SELECT DISTINCT incident_id FROM alerts ORDER BY incident_id DESC LIMIT 10000")
    hint = suggest(text, [row["incident_id"] for row in others])
    raise UnknownIncidentError(phrase("INCIDENT {text!r} is not in the alerts table{hint}", text=text, hint=hint))


def present_alert(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row as JSON and chats show it: times as ISO 8601, evidence and labels as objects."""
    shown = dict(row)
    for name in ("evidence", "labels", *(["static_labels"] if "static_labels" in row else [])):
        shown[name] = parse_object(shown.get(name))
    for name in ("started_at", "fired_at", "changed_at"):
        shown[name] = iso(time) if (time := shown.get(name)) else None
    return shown
