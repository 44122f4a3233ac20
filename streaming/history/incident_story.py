"""An incident's story out of the tables: its steps, and what happened around it to members, queues and brokers.

    story = tell_incident(history, find_incident(history, "c87a8d88"))

gives a `streaming.history.story.Story`, whose docstrings say what each part holds.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from streaming.history import surroundings
from streaming.history.effects import read_effects, read_related
from streaming.history.moments import to_ms
from streaming.history.near import near
from streaming.history.store import History
from streaming.history.story import MOST_TOLD, REASONS, Quiet, Related, Step, Story, Telling, Word, ends, turning_points
from udfs.model import is_queue_name
from udfs.pattern import describe_matchers, is_match, read_matchers
from udfs.rulebook import CANARY_CLUSTER

BEFORE_MS = 120_000
MOST_CAUSES = 8

Row = dict[str, Any]
Part = TypeVar("Part")


class UnknownIncidentError(ValueError):
    """No incident, or several, are named so. The message names those that come near."""


def find_incident(history: History, text: str) -> str:
    """The incident whose id begins with `text`. Raises UnknownIncidentError unless it is one alone."""
    found = history.rows(
        "SELECT DISTINCT incident_id FROM alerts WHERE starts_with(incident_id, $text) ORDER BY 1 LIMIT 5",
        {"text": text},
    )
    ids = [row["incident_id"] for row in found]
    if text and (text in ids or len(ids) == 1):
        return text if text in ids else str(ids[0])
    if text and ids:
        raise UnknownIncidentError(f"INCIDENT {text!r} is the beginning of several: {', '.join(ids)}")
    known = history.rows("SELECT DISTINCT incident_id FROM alerts ORDER BY incident_id DESC LIMIT 10000")
    hint = near(text, [row["incident_id"] for row in known])
    raise UnknownIncidentError(f"INCIDENT {text!r} is not in the alerts table{hint}")


def newest_incident(history: History) -> str | None:
    """The incident that began to fire last, of those that fire and that nothing explains; else the newest of all."""
    found = history.rows(
        "SELECT incident_id FROM alerts_now WHERE cluster <> $canary "
        "ORDER BY state = 'FIRING' AND suppressed_by IS NULL DESC, coalesce(fired_at, started_at) DESC, incident_id "
        "LIMIT 1",
        {"canary": CANARY_CLUSTER},
    )
    return str(found[0]["incident_id"]) if found else None


def tell_incident(history: History, incident_id: str) -> Story:
    """All that the tables know of it. Raises UnknownIncidentError when they know nothing."""
    rows = history.rows(
        "SELECT * FROM alerts WHERE incident_id = $id ORDER BY changed_at, batch_id", {"id": incident_id}
    )
    if not rows:
        raise UnknownIncidentError(f"INCIDENT {incident_id!r} is not in the alerts table")
    story = _head(rows)
    left_out: dict[str, int] = {}

    def bounded(name: str, parts: Sequence[Part], always: Collection[int] = ()) -> tuple[Part, ...]:
        told = ends(len(parts), MOST_TOLD, always)
        if len(told) < len(parts):
            left_out[name] = len(parts) - len(told)
        return tuple(parts[number] for number in told)

    steps = [_step(row) for row in rows]
    effects = read_effects(history, incident_id)
    tellings = _tellings(history, incident_id)
    return replace(
        story,
        steps=bounded("steps", steps, turning_points(steps)),
        members=bounded("members", surroundings.member_changes(history, story)),
        moves=bounded("moves", surroundings.queue_moves(history, story)),
        health=bounded("health", surroundings.health_changes(history, story)),
        causes=_causes(history, rows),
        effects=bounded("effects", effects),
        effects_by_kind=dict(Counter(one.kind for one in effects)),
        paged_by_kind=dict(Counter(one.kind for one in effects if one.paged_ms is not None)),
        tellings=bounded("tellings", tellings),
        untold=_untold(story, tellings),
        silences=bounded("silences", _silences(history, story)),
        words=bounded("words", _words(history, incident_id)),
        left_out=left_out,
    )


def _head(rows: list[Row]) -> Story:
    newest = rows[-1]
    open_rows = [row for row in rows if row["state"] != "RESOLVED"]
    is_over = newest["state"] == "RESOLVED"
    started_ms, changed_ms = to_ms(newest["started_at"]), to_ms(newest["changed_at"])
    names = ("incident_id", "alert_id", "kind", "severity", "state", "cause", "cluster", "consumer_group", "topic")
    return Story(
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
    """The JSON object that it should be; anything else stands as it is under `evidence`."""
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
        row["suppressed_by"],
        row["summary"],
    )


def _causes(history: History, rows: list[Row]) -> tuple[Related, ...]:
    """What explains it, or last did; what explains that; and so on."""
    causes: list[Related] = []
    seen = {rows[-1]["incident_id"]}
    cause_id = next((row["suppressed_by"] for row in reversed(rows) if row["suppressed_by"]), None)
    while cause_id and cause_id not in seen and len(causes) < MOST_CAUSES:
        seen.add(cause_id)
        causes += read_related(history, "incident_id = $id", {"id": cause_id})
        above = history.rows(
            "SELECT arg_max(suppressed_by, (changed_at, batch_id)) AS cause_id FROM alerts "
            "WHERE incident_id = $id AND suppressed_by IS NOT NULL",
            {"id": cause_id},
        )
        cause_id = above[0]["cause_id"]
    return tuple(causes)


def _tellings(history: History, incident_id: str) -> list[Telling]:
    rows = history.rows(
        "SELECT * FROM alert_deliveries WHERE incident_id = $id ORDER BY delivered_at, batch_id", {"id": incident_id}
    )
    names = ("status", "receiver", "outcome", "attempt", "code", "latency_ms", "reason", "route")
    return [Telling(to_ms(row["delivered_at"]), *(row[name] for name in names)) for row in rows]


def _untold(story: Story, tellings: Sequence[Telling]) -> str | None:
    if any(one.outcome in ("DUE", "DELIVERED", "RETRYING", "REFUSED") for one in tellings):
        return None
    if story.fired_ms is None:
        return f"it never fired, and {story.state} tells nobody"
    outcomes = {one.outcome: one for one in tellings}
    for outcome, words in (
        ("SILENCED", "a silence covered it"),
        ("SUPPRESSED", "another incident explains it"),
        ("HELD_BACK", "too many of its kind fired at a time"),
        ("UNROUTED", "no route takes it"),
    ):
        if outcome in outcomes:
            reason = outcomes[outcome].reason
            return f"{words} ({reason})" if reason else words
    return "the delivery log has no row of it: no relay has looked since it fired"


def _silences(history: History, story: Story) -> list[Quiet]:
    """Those that match it and were in force at a moment of it."""
    labels = {
        name: getattr(story, name)
        for name in ("kind", "severity", "cluster", "consumer_group", "topic", "broker_name", "client_id", "cause")
    }
    found = []
    for row in history.rows("SELECT * FROM silences_now ORDER BY starts_at, silence_id"):
        try:
            matchers = read_matchers(row["matchers"])
        except ValueError:
            continue  # it keeps nothing quiet; `silence list` shows it
        starts_ms, ends_ms = to_ms(row["starts_at"]), to_ms(row["ends_at"])
        is_then = ends_ms > story.started_ms and starts_ms <= (story.ended_ms or starts_ms)
        if is_then and is_match(matchers, labels):
            match = describe_matchers(matchers)
            found.append(Quiet(row["silence_id"], row["owner"], row["reason"], match, starts_ms, ends_ms))
    return found


def _words(history: History, incident_id: str) -> list[Word]:
    rows = history.rows(
        "SELECT * FROM acknowledgements WHERE incident_id = $id ORDER BY acknowledged_at", {"id": incident_id}
    )
    return [Word(to_ms(row["acknowledged_at"]), row["owner"], row["note"]) for row in rows]
