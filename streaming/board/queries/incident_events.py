"""An incident's story as one list of events, oldest first."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from streaming.history.story import Delivery, IncidentStory, QueueChange
from streaming.text.times import SECOND, clock
from udfs.alerts.prose import count, name_queues

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
    found = [
        *_steps(story),
        *_members(story),
        *_health(story, now_ms),
        *_moves(story),
        *_notifications(story),
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


def _notifications(story: IncidentStory) -> Iterator[Event]:
    for delivery in story.deliveries:
        yield Event(delivery.at_ms, "notification", _describe(delivery))


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
