"""The incident page: what is wrong, the fix, cause and effects, notifications, and the story over time."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from shlex import quote
from typing import Any

from streaming.board.chart import AMBER, BLUE, GREEN, GREY, PURPLE, RED, Axis, Bar, Chart, Key, Mark
from streaming.board.known import extent_of
from streaming.board.page import Page, View
from streaming.board.url import AskedError
from streaming.board.words import STATE_SHAPES
from streaming.history.incident_story import (
    CoveringSilence,
    Delivery,
    IncidentStory,
    QueueChange,
    Related,
    Step,
    read_story,
)
from streaming.store.alerts import UnknownIncidentError, find_incident
from streaming.text.times import SECOND, clock, span
from udfs.alerts.pattern import incident_matchers
from udfs.alerts.prose import count, name_queues
from udfs.alerts.runbook import runbook_url

MOST_EVENTS = 300
LONGEST_RUN = 4


@dataclass(frozen=True)
class Event:
    """One line of the story. `about` is its type: incident, members, queues, producers, notification or operator."""

    at_ms: int
    about: str
    text: str
    state: str | None = None
    """The incident's new state; None for other events."""


def events(story: IncidentStory, now_ms: int) -> list[Event]:
    """Return all events by time; at one time, observations come before states, and these before notifications."""
    order = {"members": 0, "producers": 1, "queues": 2, "incident": 3, "notification": 4, "operator": 5}
    notifications = (Event(one.at_ms, "notification", _describe(one)) for one in story.deliveries)
    found = [
        *_steps(story),
        *_members(story),
        *_health(story, now_ms),
        *_moves(story),
        *notifications,
        *_operator(story),
    ]
    return list(_shortened(sorted(found, key=lambda event: (event.at_ms, order[event.about]))))


def _shortened(reported: list[Event]) -> Iterator[Event]:
    """Keep the first and the last of a long run of producer changes, and count those between."""
    for is_producers, run in groupby(reported, key=lambda event: event.about == "producers"):
        lines = list(run)
        if is_producers and len(lines) > LONGEST_RUN:
            yield lines[0]
            yield Event(
                lines[1].at_ms, "producers", f"{len(lines) - 2} more changes of the number of producers that avoid it."
            )
            yield lines[-1]
        else:
            yield from lines


def _steps(story: IncidentStory) -> Iterator[Event]:
    for step in story.steps:
        more = f" ({step.severity})" if step.state == "FIRING" else ""
        queues = f" Queues: {name_queues(step.queues)}." if step.queues else ""
        yield Event(step.at_ms, "incident", f"{_capital(step.why or step.state)}{more}.{queues}", step.state)


def _members(story: IncidentStory) -> Iterator[Event]:
    for change in story.members:
        addresses = sorted({address for _, address in change.channels})
        brokers = sorted({broker for broker, _ in change.channels})
        facts = [fact for fact in (change.client_version, change.strategy) if fact]
        of = f" ({', '.join(facts)})" if facts else ""
        text = f"{change.client_id}{of} {change.change.lower()} at {_some(addresses)}, according to {_some(brokers)}."
        yield Event(change.at_ms, "members", text)


def _health(story: IncidentStory, now_ms: int) -> Iterator[Event]:
    for change in story.health:
        until = f" until {clock(change.until_ms, now_ms)}" if change.until_ms is not None else ""
        avoid = "avoids" if change.unavailable_producers == 1 else "avoid"
        text = f"{change.unavailable_producers} of {change.producers} producers {avoid} {change.broker_name}{until}."
        yield Event(change.at_ms, "producers", text)


def _moves(story: IncidentStory) -> Iterator[Event]:
    """Yield one line for queues of a topic that made the same step within one second."""
    groups: dict[tuple[int, str, str], list[QueueChange]] = {}
    for move in story.queue_changes:
        groups.setdefault((move.at_ms // SECOND, move.topic, _step_of(move)), []).append(move)
    for (_, topic, step), moves in groups.items():
        queues = name_queues([move.queue for move in moves])
        yield Event(moves[0].at_ms, "queues", f"{count(len(moves), 'queue')} of {topic}, {queues}: {step}.")


def _step_of(move: QueueChange) -> str:
    parts = []
    if move.verdict_before != move.verdict:
        parts.append(f"{move.verdict_before} → {move.verdict}" if move.verdict_before else move.verdict)
    if move.planned_before != move.planned_owner:
        parts.append(f"planned owner: {move.planned_owner or 'none'}")
    if (move.observed_before or ()) != move.observed_owners:
        parts.append(f"pulled by: {_some(list(move.observed_owners)) or 'no client'}")
    return "; ".join(parts) or move.verdict


def _describe(one: Delivery) -> str:
    word = (one.outcome or "").replace("_", " ").lower()
    if one.attempt == 0:
        return f"Not notified ({word}){': ' + one.reason if one.reason else ''}."
    answer = f"HTTP {one.code}" if one.code else "no answer"
    took = f" after {one.latency_ms} ms" if one.latency_ms else ""
    why = f": {one.reason}" if one.reason and one.outcome != "DELIVERED" else ""
    if one.outcome == "PENDING":
        return f"Waiting for receiver {one.receiver} (route {one.route}, {one.status})."
    return f"{_capital(word)} to {one.receiver} ({one.status}, attempt {one.attempt}, {answer}{took}){why}."


def _operator(story: IncidentStory) -> Iterator[Event]:
    for word in story.acknowledgements:
        yield Event(word.at_ms, "operator", f"Acknowledged by {word.acknowledged_by}: {word.note}")
    for silence in story.silences:
        text = f"Silenced by {silence.created_by} (silence {silence.silence_id}, {silence.match}): {silence.comment}"
        yield Event(silence.starts_ms, "operator", text)


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class IncidentPage:
    """Values of the page: the story, its events oldest first, and the end of the data."""

    story: IncidentStory
    events: Sequence[Event]
    now_ms: int
    known_until_ms: int
    runbook_url: str | None


def read(view: View) -> IncidentPage:
    asked = view.asked.get("id")
    if not asked:
        raise AskedError("id is missing: open an incident from the alerts page, or give /incident?id=ID.")
    try:
        story = read_story(view.history, find_incident(view.history, asked))
    except UnknownIncidentError as error:
        raise AskedError(f"{error}.".replace("INCIDENT ", "id = ", 1)) from None
    runbook = runbook_url(view.runbooks_url, story.kind, story.cause)
    return IncidentPage(story, events(story, view.now_ms), view.now_ms, view.known_until_ms, runbook)


SHAPES = {"incident": "▲", "members": "◆", "queues": "≡", "producers": "↗", "notification": "✉", "operator": "●"}
"""Shape of each type of event."""

LOOKS = {
    "FIRING": (RED, ""),
    "PENDING": (AMBER, "dots"),
    "RECOVERING": (BLUE, "backslash"),
    "RESOLVED": (GREEN, ""),
    "UNKNOWN": (PURPLE, "cross"),
}
"""Tone and hatching of each state."""


def draw(page: IncidentPage) -> Mapping[str, Any]:
    """Return the chart, and what the template shows beside the value."""
    story = page.story
    active = [silence for silence in story.silences if silence.starts_ms <= page.now_ms < silence.ends_ms]
    shown = page.events[-MOST_EVENTS:]
    return {
        "story": story,
        "chart": states_chart(page),
        "active": active if story.ended_ms is None else [],
        "subject": _subject,
        "shapes": SHAPES,
        "events": list(_keyed(shown)),
        "more_events": sum(story.left_out.values()) + len(page.events) - len(shown),
        "queues": name_queues(story.queues) if story.queues else "",
        "evidence": [(name, _shown(value)) for name, value in sorted(story.evidence.items())],
        "delivered": sum(delivery.outcome == "DELIVERED" for delivery in story.deliveries),
        "commands": _commands(story, active),
    }


def _subject(incident: Related) -> str:
    if incident.consumer_group:
        return f"in group {incident.consumer_group}" + (f", topic {incident.topic}" if incident.topic else "")
    return f"of {incident.broker_name}" if incident.broker_name else ""


def _keyed(reported: Sequence[Event]) -> Iterator[tuple[str, Event]]:
    """Yield each event with a key that later events do not change."""
    seen = Counter[str]()
    for event in reported:
        name = f"{event.at_ms}-{event.about}"
        seen[name] += 1
        yield f"{name}-{seen[name]}", event


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 1_000 else text[:1_000] + " …"


def _commands(story: IncidentStory, active: Sequence[CoveringSilence]) -> str:
    """Return the commands that make sense now: `ack` and `silence add` only once each."""
    lines = [f"balancewatch explain {story.incident_id}"]
    if story.ended_ms is None and not story.acknowledgements:
        lines.append(f'balancewatch ack {story.incident_id} --owner YOU --note "what you do"')
    if story.ended_ms is None and active:
        lines += [f"balancewatch silence end {silence.silence_id}" for silence in active]
    elif story.ended_ms is None:
        subject = {
            "kind": story.kind,
            "cluster": story.cluster,
            "consumer_group": story.consumer_group,
            "broker_name": story.broker_name,
        }
        matchers = " ".join(f"--match {name}={quote(globs[0])}" for name, globs in incident_matchers(subject).items())
        lines.append(f'balancewatch silence add {matchers} --for 2h --owner YOU --reason "why"')
    return "\n".join(lines)


def states_chart(page: IncidentPage) -> Chart:
    """Return the band of states, which ends with the incident or with the data, and marks of membership changes.

    The axis begins at the first sign, or at a membership change shortly before, and ends with the band.
    """
    story = page.story
    end_ms = story.ended_ms or max(page.known_until_ms, story.changed_ms)
    members_ms = [change.at_ms for change in story.members]
    times_ms = [story.started_ms, *(step.at_ms for step in story.steps), *members_ms, end_ms]
    axis = Axis(*extent_of(story.from_ms, max(page.now_ms, end_ms), times_ms))
    steps = _merged(story.steps)
    bars, marks, keys = [], [], dict[Key, None]()
    for number, step in enumerate(steps):
        until_ms = steps[number + 1].at_ms if number + 1 < len(steps) else end_ms
        if step.state == "RESOLVED" or until_ms <= step.at_ms:
            continue
        tone, hatch = (GREY, "slash") if step.inhibited_by is not None else LOOKS.get(step.state, (GREY, ""))
        name = f"{STATE_SHAPES.get(step.state, '·')} {step.state}" + (" (inhibited)" if step.inhibited_by else "")
        title = f"{name} for {span(until_ms - step.at_ms)}"
        solid = 0.0 if hatch else 1.0
        bars.append(Bar(*axis.span(step.at_ms, until_ms), 26, 40, tone, hatch, name, title, strength=solid))
        keys[Key(name, tone, hatch)] = None
    if members_ms:
        keys[Key("membership change", PURPLE, symbol="◆")] = None
        for at_ms in members_ms:
            marks.append(Mark(axis.x(at_ms), 12, "◆", PURPLE, f"membership change, {clock(at_ms, page.now_ms)}"))
    if story.ended_ms:
        keys[Key("resolved", GREEN, symbol="■")] = None
        marks.append(Mark(axis.x(end_ms), 46, "■", GREEN, f"resolved, {clock(end_ms, page.now_ms)}"))
    reported = "; ".join(f"{step.state} at {clock(step.at_ms, page.now_ms)}" for step in steps[:20])
    label = f"States of {story.kind} over time: {reported}. The story below lists them."
    return Chart("band", label, 72, axis, bars, marks, tuple(keys))


def _merged(steps: Sequence[Step]) -> list[Step]:
    """Return the steps that changed the state or the inhibition."""
    kept: list[Step] = []
    for step in steps:
        if not kept or (kept[-1].state, kept[-1].inhibited_by is None) != (step.state, step.inhibited_by is None):
            kept.append(step)
    return kept


PAGE = Page(
    "incident",
    "/incident",
    "Incident",
    read,
    draw,
    parameters=frozenset({"id"}),
    back=("All alerts", "/alerts"),
    tables=frozenset({"acknowledgements", "alert_deliveries", "alerts", "assignments", "memberships", "silences"}),
)
