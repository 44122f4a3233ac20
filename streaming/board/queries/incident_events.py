"""An incident's story as one list, oldest first: what each moment brought, in a few words, with what it concerns."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from streaming.history.story import Delivery, IncidentStory, QueueChange
from streaming.text.times import SECOND, clock
from udfs.alerts.prose import name_queues

MOST_EVENTS = 300
LONGEST_RUN = 4


@dataclass(frozen=True)
class Event:
    """One line of the story. `what` is its sort: incident, members, queues, producers, told or people."""

    at_ms: int
    what: str
    text: str
    state: str | None = None
    """The incident's state from then on, where this is a step of it."""


def events(story: IncidentStory, now_ms: int) -> list[Event]:
    """All of them; of one moment, what happened comes before what was concluded, and that before who was told."""
    order = {"members": 0, "producers": 1, "queues": 2, "incident": 3, "told": 4, "people": 5}
    found = [
        *_steps(story),
        *_members(story),
        *_health(story, now_ms),
        *_moves(story),
        *_reported(story),
        *_people(story),
    ]
    return list(_shortened(sorted(found, key=lambda event: (event.at_ms, order[event.what]))))


def _shortened(reported: list[Event]) -> Iterator[Event]:
    """Producers that come and go every second are told by the first and the last of each run."""
    for is_producers, run in groupby(reported, key=lambda event: event.what == "producers"):
        lines = list(run)
        if is_producers and len(lines) > LONGEST_RUN:
            yield lines[0]
            yield Event(lines[1].at_ms, "producers", f"{len(lines) - 2} more changes of how many producers avoid it.")
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
        text = f"{change.client_id}{of} {change.change.lower()} at {_some(addresses)}, seen by {_some(brokers)}."
        yield Event(change.at_ms, "members", text)


def _health(story: IncidentStory, now_ms: int) -> Iterator[Event]:
    for change in story.health:
        until = f", until {clock(change.until_ms, now_ms)}" if change.until_ms is not None else ""
        avoid = "avoids" if change.unavailable_producers == 1 else "avoid"
        text = f"{change.unavailable_producers} of {change.producers} producers {avoid} {change.broker_name}{until}."
        yield Event(change.at_ms, "producers", text)


def _moves(story: IncidentStory) -> Iterator[Event]:
    """Queues of a topic that made the same step within one second are one line."""
    groups: dict[tuple[int, str, str], list[QueueChange]] = {}
    for move in story.queue_changes:
        groups.setdefault((move.at_ms // SECOND, move.topic, _step_of(move)), []).append(move)
    for (_, topic, step), moves in groups.items():
        queues = name_queues([move.queue for move in moves])
        word = "queue" if len(moves) == 1 else f"{len(moves)} queues"
        yield Event(moves[0].at_ms, "queues", f"{_capital(word)} of {topic}: {queues}: {step}.")


def _step_of(move: QueueChange) -> str:
    parts = []
    if move.verdict_before != move.verdict:
        parts.append(f"{move.verdict_before} → {move.verdict}" if move.verdict_before else move.verdict)
    if move.planned_before != move.planned_owner:
        parts.append(f"planned for {move.planned_owner or 'nobody'}")
    if (move.observed_before or ()) != move.observed_owners:
        parts.append(f"pulled by {_some(list(move.observed_owners)) or 'nobody'}")
    return ", ".join(parts) or move.verdict


def _reported(story: IncidentStory) -> Iterator[Event]:
    for reporting in story.deliveries:
        yield Event(reporting.at_ms, "told", _describe(reporting))


def _describe(one: Delivery) -> str:
    word = (one.outcome or "").replace("_", " ").lower()
    if one.attempt == 0:
        return f"Not told ({word}){': ' + one.reason if one.reason else ''}."
    answer = f"HTTP {one.code}" if one.code else "no answer"
    took = f" after {one.latency_ms} ms" if one.latency_ms else ""
    why = f": {one.reason}" if one.reason and one.outcome != "DELIVERED" else ""
    if one.outcome == "PENDING":
        return f"Pending for {one.receiver} by route {one.route}: {one.status}."
    return f"{_capital(word)} to {one.receiver} ({one.status}, attempt {one.attempt}, {answer}{took}){why}."


def _people(story: IncidentStory) -> Iterator[Event]:
    for word in story.acknowledgements:
        yield Event(word.at_ms, "people", f"{word.acknowledged_by} is at it: {word.note}")
    for quiet in story.silences:
        text = f"Silence {quiet.silence_id} by {quiet.created_by} covers it ({quiet.match}): {quiet.comment}"
        yield Event(quiet.starts_ms, "people", text)


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
