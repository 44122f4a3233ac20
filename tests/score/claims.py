"""What the alerts said, as claims: of which queue or subject, for what cause, from when until when."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

PER_QUEUE = ("starved_queue", "double_consumed_queue", "stalled_queue")
"""Kinds whose claims are about single queues; the others are about a group, a client or a broker."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """One thing said of one subject. `end_ms` None: still said when the run ended."""

    kind: str
    cause: str | None
    consumer_group: str | None
    topic: str | None
    broker_name: str | None
    client_id: str | None
    queue: str | None
    start_ms: int
    end_ms: int | None
    incident_id: str


def claims_of(alerts: Iterable[Row]) -> list[Claim]:
    """The claims of the alert rows of one run; spells of one subject, cause and incident joined."""
    rows_of: dict[str, list[Row]] = {}
    for row in alerts:
        rows_of.setdefault(row["incident_id"], []).append(row)
    claims: dict[tuple[str, str | None, str | None], Claim] = {}
    for incident_id, rows in rows_of.items():
        for row, following in zip(rows, [*rows[1:], None], strict=True):
            if row["state"] != "FIRING":
                continue
            end_ms = following["changed_at"] if following else None
            for queue, cause in _subjects(row):
                key = (incident_id, queue, cause)
                known = claims.get(key)
                claims[key] = replace(known, end_ms=end_ms) if known else _claim(row, queue, cause, end_ms)
    return list(claims.values())


def _subjects(row: Row) -> list[tuple[str | None, str | None]]:
    """(queue, cause) of each thing a row says."""
    if row["kind"] not in PER_QUEUE:
        return [(None, row["cause"])]
    reported = json.loads(row["evidence"]).get("queues", {}) if row["kind"] == "starved_queue" else {}
    return [(queue, reported.get(queue, {}).get("cause") or row["cause"]) for queue in row["queues"]]


def _claim(row: Row, queue: str | None, cause: str | None, end_ms: int | None) -> Claim:
    return Claim(
        row["kind"],
        cause,
        row["consumer_group"],
        row["topic"],
        row["broker_name"],
        row["client_id"],
        queue,
        row["changed_at"],
        end_ms,
        row["incident_id"],
    )


def pages_of(alerts: Iterable[Row]) -> dict[str, Row]:
    """Incident id → the row that first paged: firing, explained by no other, and worth waking somebody."""
    pages: dict[str, Row] = {}
    for row in alerts:
        if row["state"] == "FIRING" and row["inhibited_by"] is None and row["severity"] != "info":
            pages.setdefault(row["incident_id"], row)
    return pages
