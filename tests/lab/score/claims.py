"""What the alerts say, as claims: about which queue or subject, for what cause, from when until when."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.lab.score.fact import Statement
from tests.lab.score.truths import GAP_MS

PER_QUEUE = ("starved_queue", "double_consumed_queue", "stalled_queue")
"""Kinds whose claims are about single queues; the others are about a group, a client, a broker or a clock."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Claim(Statement):
    """One statement of the alerts, open from the FIRING row that makes it.

    `end_ms` is when its incident resolves, or a FIRING row leaves the subject out; None: open when the play ended.
    `machine` is "role:name" of a clock.
    """

    incident_id: str
    machine: str | None = None


Subject = tuple[str | None, str | None, str | None]
"""Queue, cause and machine."""


def claims_of(alerts: Iterable[Row]) -> list[Claim]:
    """Return the claims of the alert rows of one run, inhibited ones too.

    What an incident leaves out and says again within `GAP_MS` is one claim, as a queue that starves by turns is one
    fact. A RECOVERING incident is open: the page is.
    """
    rows_of: dict[str, list[Row]] = {}
    for row in alerts:
        rows_of.setdefault(row["incident_id"], []).append(row)
    claims: list[Claim] = []
    for rows in rows_of.values():
        claims += _claims_of_incident(rows)
    return claims


def _claims_of_incident(rows: Iterable[Row]) -> list[Claim]:
    claims: dict[Subject, list[Claim]] = {}
    for row in rows:
        at_ms = row["changed_at"]
        if row["state"] not in ("FIRING", "RESOLVED"):
            continue
        subjects = dict.fromkeys(_subjects(row)) if row["state"] == "FIRING" else {}
        for subject, stretches in claims.items():
            if stretches[-1].end_ms is None and subject not in subjects:
                stretches[-1] = replace(stretches[-1], end_ms=at_ms)
        for subject in subjects:
            stretches = claims.setdefault(subject, [])
            if not stretches:
                stretches.append(_claim(row, subject))
                continue
            ended_ms = stretches[-1].end_ms
            if ended_ms is None or at_ms - ended_ms <= GAP_MS:
                stretches[-1] = replace(stretches[-1], end_ms=None)
            else:
                stretches.append(_claim(row, subject))
    return [claim for stretches in claims.values() for claim in stretches]


def _subjects(row: Row) -> list[Subject]:
    evidence = json.loads(row["evidence"])
    if row["kind"] == "clock_skew":
        machines = [f"{evidence['role']}:{name}" for name in evidence.get("ahead_ms", ())]
        return [(None, row["cause"], machine) for machine in machines or [None]]
    if row["kind"] not in PER_QUEUE:
        return [(None, row["cause"], None)]
    reported = evidence.get("queues", {}) if row["kind"] in ("starved_queue", "stalled_queue") else {}
    return [(queue, reported.get(queue, {}).get("cause") or row["cause"], None) for queue in row["queues"]]


def _claim(row: Row, subject: Subject) -> Claim:
    queue, cause, machine = subject
    return Claim(
        row["kind"],
        cause,
        row["consumer_group"],
        row["topic"],
        queue.rpartition(":")[0] if queue else row["broker_name"],
        row["client_id"] if cause == row["cause"] else None,  # a row blames one client, for its own cause
        queue,
        row["changed_at"],
        None,
        row["incident_id"],
        machine,
    )


def pages_of(alerts: Iterable[Row]) -> dict[str, Row]:
    """Incident id → the row that first paged: firing, explained by no other, and worth waking somebody."""
    pages: dict[str, Row] = {}
    for row in alerts:
        if row["state"] == "FIRING" and row["inhibited_by"] is None and row["severity"] != "info":
            pages.setdefault(row["incident_id"], row)
    return pages
