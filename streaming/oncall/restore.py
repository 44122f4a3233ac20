"""The relay's memory after a restart, from the two tables alone: what happened, and what each receiver has of it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streaming.oncall.desk import Desk
from streaming.oncall.duty import Duty
from streaming.oncall.now import Now
from streaming.oncall.record import EVERYBODY, Outcome
from streaming.oncall.story import Hold, Story
from streaming.oncall.transition import Transition, epoch_ms, need
from streaming.readable_rows import UNREADABLE

LOG_COLUMNS = (
    "incident_id",
    "receiver",
    "delivery_key",
    "status",
    "outcome",
    "reason",
    "route",
    "attempt",
    "delivered_at",
    "batch_id",
)
"""What is read of alert_deliveries."""

Outcomes = tuple[Outcome, int]


@dataclass
class Past:
    """What the delivery log says of one incident. `due` is by delivery key and receiver, with the route and when."""

    due: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)
    answers: dict[tuple[str, str], Outcomes] = field(default_factory=dict)
    attempts: dict[tuple[str, str], int] = field(default_factory=dict)
    hold: Hold | None = None
    is_closed: bool = False

    def owed(self, receivers: Collection[str]) -> bool:
        """Whether one of these receivers has not answered for something that is due to it."""
        return any(
            receiver in receivers and (key, receiver) not in self.answers
            for key, due in self.due.items()
            for receiver in due
        )


def read_pasts(
    rows: Iterable[Mapping[str, Any]],
    on_unreadable: Callable[[Mapping[str, Any], Exception], None] | None = None,
) -> dict[str, Past]:
    """By incident, from the rows of alert_deliveries in the order in which they were written.

    One that cannot be read is left out, and told to `on_unreadable`.
    """
    pasts: dict[str, Past] = {}
    for row in rows:
        try:
            need(row, ("incident_id", "delivery_key", "receiver", "status", "outcome"))
            key, receiver, outcome = row["delivery_key"], row["receiver"], row["outcome"]
            at_ms = epoch_ms(row["delivered_at"])
        except UNREADABLE as error:
            if on_unreadable is not None:
                on_unreadable(row, error)
            continue
        past = pasts.setdefault(row["incident_id"], Past())
        if outcome == "DUE":
            past.due.setdefault(key, {})[receiver] = (row["route"] or "", at_ms)
        elif outcome in ("DELIVERED", "REFUSED"):
            _, before_ms = past.answers.get((key, receiver), (outcome, at_ms))
            past.answers[key, receiver] = (outcome, max(at_ms, before_ms))  # a clock may be set back in between
        elif outcome == "RETRYING":
            past.attempts[key, receiver] = max(row["attempt"] or 0, past.attempts.get((key, receiver), 0))
        elif receiver == EVERYBODY:
            past.hold = Hold(outcome, row["reason"] or "", at_ms)
            past.is_closed = row["status"] == "resolved"
    return pasts


def is_settled(
    rows: Sequence[tuple[str, int]],
    past: Past,
    receivers: Collection[str],
    renewed_since_ms: int,
    history_until_ms: int,
) -> bool:
    """Whether nothing is left to do for an incident, from (state, changed_at) of its rows.

    Over before the relay first looked, or over and decided, with every answer in; what a receiver has had only since
    `renewed_since_ms` may have to be told again.
    """
    ends = [at_ms for state, at_ms in rows if state == "RESOLVED"]
    if not ends:
        return False
    if not past.due:
        return past.is_closed or max(ends) <= history_until_ms or all(state != "FIRING" for state, _ in rows)
    has_end_due = any(":resolved:" in key for key in past.due)
    is_renewed = any(at_ms >= renewed_since_ms for _, at_ms in past.answers.values())
    return has_end_due and not past.owed(receivers) and not is_renewed


def restore(desk: Desk, stories: Mapping[str, Sequence[Transition]], pasts: Mapping[str, Past], now: Now) -> None:
    """Fill a new desk. Incidents that were told come first, so that they keep their place under the limit."""
    rest: list[Transition] = []
    for incident_id, transitions in stories.items():
        ordered = sorted(transitions, key=lambda one: one.position)
        past = pasts.get(incident_id, Past())
        for (key, receiver), _ in past.answers.items():
            if ":acknowledged:" in key:
                desk.remember_acknowledged(key, receiver)
        told = _restore_told(desk, ordered, past, now)
        if told is None and past.hold is not None:
            desk.stories[incident_id] = Story(hold=past.hold)
        if told is None or told.state != "RESOLVED":
            rest += [one for one in ordered if told is None or one.position > told.position]
    desk.observe(rest, now)
    desk.tell_newcomers(now)


def _restore_told(desk: Desk, ordered: Sequence[Transition], past: Past, now: Now) -> Transition | None:
    """The newest transition that was due to anybody; the outboxes know again what of it is still owed."""
    story, told = Story(), None
    for transition in ordered:
        due = past.due.get(transition.notice.key)
        if due is None:
            continue
        told = transition
        if transition.state != "RESOLVED":
            story.told = transition.notice
        for receiver, (route, due_at_ms) in due.items():
            story.receivers.setdefault(receiver, route)
            _restore_duty(desk, receiver, Duty(transition.notice, route, now.pace_of(due_at_ms)), past, now)
    if told is None:
        return None
    if told.state == "RESOLVED":
        desk.settle(told.incident_id)
    else:
        story.fired_at_ms = told.at_ms
        desk.resume(story, told)
    return told


def _restore_duty(desk: Desk, receiver: str, duty: Duty, past: Past, now: Now) -> None:
    box = desk.outboxes.get(receiver)
    if box is None:
        return  # it is not configured now; should it be again, the log still says what is due to it
    outcome, at_ms = past.answers.get((duty.key, receiver), (None, 0))
    if outcome == "DELIVERED":
        box.remember(duty.notice, now.pace_of(at_ms))
    elif outcome == "REFUSED" and duty.status == "resolved":
        box.forget(duty.notice)
    elif outcome is None:
        duty.attempts = past.attempts.get((duty.key, receiver), 0)
        box.owe(duty)
