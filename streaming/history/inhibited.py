"""The incidents that one inhibits or did: until when, and which of them paged nevertheless."""

from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from streaming.history.story import Inhibited, Related
from streaming.store.store import History
from streaming.text.times import to_ms

Row = dict[str, Any]


def read_related(history: History, condition: str, params: dict[str, Any]) -> list[Related]:
    """Return incidents with a row that matches the condition, by their newest row, in order of their start."""
    rows = history.rows(
        f"SELECT * FROM alerts_now WHERE incident_id IN (SELECT incident_id FROM alerts WHERE {condition}) "
        "ORDER BY started_at, incident_id",
        params,
    )
    names = ("incident_id", "kind", "state", "cause", "consumer_group", "topic", "broker_name", "summary")
    return [Related(**{name: row[name] for name in names}, started_ms=to_ms(row["started_at"])) for row in rows]


def read_effects(history: History, incident_id: str) -> list[Inhibited]:
    """Return the incidents that it inhibits, or did for a time, in order of their start."""
    params = {"id": incident_id}
    related = read_related(history, "inhibited_by = $id", params)
    rows = history.rows(
        "SELECT incident_id, state, severity, inhibited_by, changed_at FROM alerts "
        "WHERE incident_id IN (SELECT incident_id FROM alerts WHERE inhibited_by = $id) "
        "ORDER BY incident_id, changed_at, batch_id",
        params,
    )
    spans = {
        name: _explained(list(steps), incident_id) for name, steps in groupby(rows, lambda row: row["incident_id"])
    }
    return [Inhibited(**vars(one), **asdict(spans[one.incident_id])) for one in related]


@dataclass(frozen=True)
class _Span:
    inhibited_since_ms: int
    inhibited_until_ms: int | None
    paged_ms: int | None


def _explained(steps: list[Row], incident_id: str) -> _Span:
    """Return the inhibited span of one incident from its rows, oldest first."""
    explained = [number for number, row in enumerate(steps) if row["inhibited_by"] == incident_id]
    after = steps[explained[-1] + 1 : explained[-1] + 2]
    paging = [
        row for row in steps if row["state"] == "FIRING" and row["inhibited_by"] is None and row["severity"] != "info"
    ]
    return _Span(
        to_ms(steps[explained[0]]["changed_at"]),
        to_ms(after[0]["changed_at"]) if after else None,
        to_ms(paging[0]["changed_at"]) if paging else None,
    )
