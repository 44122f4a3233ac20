"""The history of an incident, read from the tables: its steps, and what members, queues and brokers did meanwhile.

    story = read_story(history, find_incident(history, "c87a8d88"))

returns a `streaming.history.story.IncidentStory`.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any, TypeVar

from streaming.history import incident_context
from streaming.history.story import (
    MOST_SHOWN,
    REASONS,
    Acknowledged,
    CoveringSilence,
    Delivery,
    IncidentStory,
    Inhibited,
    Related,
    Step,
    ends,
    turning_points,
)
from streaming.store.alerts import UnknownIncidentError, find_incident
from streaming.store.store import History
from streaming.text.times import to_ms
from udfs.alerts.pattern import describe_matchers, is_match, read_matchers
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.rocketmq.model import is_queue_name

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


__all__ = ["UnknownIncidentError", "find_incident", "newest_incident", "read_story"]

BEFORE_MS = 120_000
MOST_INHIBITORS = 8
Part = TypeVar("Part")


def newest_incident(history: History) -> str | None:
    """Return the incident that fired last among firing ones that are not inhibited; else the newest incident."""
    found = history.rows(
        "SELECT incident_id FROM alerts_now WHERE cluster <> $canary "
        "ORDER BY state = 'FIRING' AND inhibited_by IS NULL DESC, coalesce(fired_at, started_at) DESC, incident_id "
        "LIMIT 1",
        {"canary": CANARY_CLUSTER},
    )
    return str(found[0]["incident_id"]) if found else None


def read_story(history: History, incident_id: str) -> IncidentStory:
    """Return the incident's history. Raises UnknownIncidentError where the tables have no row of it."""
    rows = history.rows(
        "SELECT * FROM alerts WHERE incident_id = $id ORDER BY changed_at, batch_id", {"id": incident_id}
    )
    if not rows:
        raise UnknownIncidentError(f"INCIDENT {incident_id!r} is not in the alerts table")
    story = _head(rows)
    left_out: dict[str, int] = {}

    def bounded(name: str, parts: Sequence[Part], always: Collection[int] = ()) -> tuple[Part, ...]:
        reported = ends(len(parts), MOST_SHOWN, always)
        if len(reported) < len(parts):
            left_out[name] = len(parts) - len(reported)
        return tuple(parts[number] for number in reported)

    steps = [_step(row) for row in rows]
    inhibits = read_effects(history, incident_id)
    deliveries = _deliveries(history, incident_id)
    return replace(
        story,
        verdict_since_ms=incident_context.verdict_since_ms(history, story),
        steps=bounded("steps", steps, turning_points(steps)),
        members=bounded("members", incident_context.member_changes(history, story)),
        queue_changes=bounded("queue_changes", incident_context.queue_moves(history, story)),
        health=bounded("health", incident_context.health_changes(history, story)),
        inhibitors=_inhibitors(history, rows),
        inhibits=bounded("inhibits", inhibits),
        inhibits_by_kind=dict(Counter(one.kind for one in inhibits)),
        paged_by_kind=dict(Counter(one.kind for one in inhibits if one.paged_ms is not None)),
        deliveries=bounded("deliveries", deliveries),
        not_notified_reason=_not_notified_reason(story, deliveries),
        silences=bounded("silences", _silences(history, story)),
        acknowledgements=bounded("acknowledgements", _acknowledgements(history, incident_id)),
        left_out=left_out,
    )


def _head(rows: list[Row]) -> IncidentStory:
    newest = rows[-1]
    open_rows = [row for row in rows if row["state"] != "RESOLVED"]
    is_over = newest["state"] == "RESOLVED"
    started_ms, changed_ms = to_ms(newest["started_at"]), to_ms(newest["changed_at"])
    names = ("incident_id", "alert_id", "kind", "severity", "state", "cause", "cluster", "consumer_group", "topic")
    return IncidentStory(
        **{name: newest[name] for name in names},
        broker_name=newest["broker_name"],
        client_id=newest["client_id"],
        queues=_queues((open_rows or rows)[-1]),
        summary=newest["summary"],
        advice=(open_rows or rows)[-1]["advice"],
        evidence=_evidence(newest["evidence"]),
        completeness=newest["completeness"],
        flaps=newest["flaps"] or 0,
        is_flapping=bool(newest["is_flapping"]),
        started_ms=started_ms,
        fired_ms=to_ms(newest["fired_at"]) if newest["fired_at"] else None,
        changed_ms=changed_ms,
        ended_ms=changed_ms if is_over else None,
        from_ms=min(started_ms, to_ms(rows[0]["changed_at"])) - BEFORE_MS,
        to_ms=changed_ms if is_over else None,
    )


def _evidence(text: str | None) -> Mapping[str, Any]:
    """Return the JSON object; any other text is returned under the key `evidence`."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"evidence": text}


def _queues(row: Row) -> tuple[str, ...]:
    return tuple(filter(is_queue_name, row["queues"] or ()))


def _step(row: Row) -> Step:
    return Step(
        to_ms(row["changed_at"]),
        row["state"],
        row["reason"],
        REASONS.get(row["reason"] or "", row["reason"] or ""),
        row["severity"],
        row["cause"],
        _queues(row),
        row["inhibited_by"],
        row["summary"],
    )


def _inhibitors(history: History, rows: list[Row]) -> tuple[Related, ...]:
    """Return the chain of inhibiting incidents, the direct one first; of a past inhibition the last."""
    inhibitors: list[Related] = []
    seen = {rows[-1]["incident_id"]}
    cause_id = next((row["inhibited_by"] for row in reversed(rows) if row["inhibited_by"]), None)
    while cause_id and cause_id not in seen and len(inhibitors) < MOST_INHIBITORS:
        seen.add(cause_id)
        inhibitors += read_related(history, "incident_id = $id", {"id": cause_id})
        above = history.rows(
            "SELECT arg_max(inhibited_by, (changed_at, batch_id)) AS cause_id FROM alerts "
            "WHERE incident_id = $id AND inhibited_by IS NOT NULL",
            {"id": cause_id},
        )
        cause_id = above[0]["cause_id"]
    return tuple(inhibitors)


def _deliveries(history: History, incident_id: str) -> list[Delivery]:
    rows = history.rows(
        "SELECT * FROM alert_deliveries WHERE incident_id = $id ORDER BY delivered_at, batch_id", {"id": incident_id}
    )
    names = ("status", "receiver", "outcome", "attempt", "code", "latency_ms", "reason", "route")
    return [Delivery(to_ms(row["delivered_at"]), *(row[name] for name in names)) for row in rows]


def _not_notified_reason(story: IncidentStory, deliveries: Sequence[Delivery]) -> str | None:
    if any(one.outcome in ("PENDING", "DELIVERED", "RETRYING", "REFUSED") for one in deliveries):
        return None
    if story.fired_ms is None:
        return f"it never fired; {story.state} sends no notification"
    outcomes = {one.outcome: one for one in deliveries}
    for outcome, words in (
        ("SILENCED", "silenced"),
        ("INHIBITED", "inhibited by another incident"),
        ("LIMITED", "limited: too many alerts of this kind fired at once"),
        ("NO_ROUTE", "no route matches"),
    ):
        if outcome in outcomes:
            reason = outcomes[outcome].reason
            return f"{words} ({reason})" if reason else words
    return "no row in the delivery log: no relay has run since it fired"


def _silences(history: History, story: IncidentStory) -> list[CoveringSilence]:
    """Return the silences that matched the incident and were active during it."""
    labels = {
        name: getattr(story, name)
        for name in ("kind", "severity", "cluster", "consumer_group", "topic", "broker_name", "client_id", "cause")
    }
    found = []
    for row in history.rows("SELECT * FROM silences_now ORDER BY starts_at, silence_id"):
        try:
            matchers = read_matchers(row["matchers"])
        except ValueError:
            continue  # an unreadable silence silences nothing; `silence list` shows it
        starts_ms, ends_ms = to_ms(row["starts_at"]), to_ms(row["ends_at"])
        is_then = ends_ms > story.started_ms and starts_ms <= (story.ended_ms or starts_ms)
        if is_then and is_match(matchers, labels):
            match = describe_matchers(matchers)
            found.append(
                CoveringSilence(row["silence_id"], row["created_by"], row["comment"], match, starts_ms, ends_ms)
            )
    return found


def _acknowledgements(history: History, incident_id: str) -> list[Acknowledged]:
    rows = history.rows(
        "SELECT * FROM acknowledgements WHERE incident_id = $id ORDER BY acknowledged_at", {"id": incident_id}
    )
    return [Acknowledged(to_ms(row["acknowledged_at"]), row["acknowledged_by"], row["note"]) for row in rows]
