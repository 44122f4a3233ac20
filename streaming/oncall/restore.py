"""The relay's memory after a restart, from the two tables alone: what happened, and what each receiver has of it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streaming.oncall.delivery import Delivery
from streaming.oncall.incident_state import IncidentState, WithheldReason
from streaming.oncall.notification_policy import NotificationPolicy
from streaming.oncall.now import Now
from streaming.oncall.record import EVERYBODY, Outcome
from streaming.oncall.transition import Transition, need
from streaming.text.times import to_ms
from streaming.warehouse.readable_rows import UNREADABLE

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
    withheld: WithheldReason | None = None
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
            at_ms = to_ms(row["delivered_at"])
        except UNREADABLE as error:
            if on_unreadable is not None:
                on_unreadable(row, error)
            continue
        past = pasts.setdefault(row["incident_id"], Past())
        if outcome == "PENDING":
            past.due.setdefault(key, {})[receiver] = (row["route"] or "", at_ms)
        elif outcome in ("DELIVERED", "REFUSED"):
            _, before_ms = past.answers.get((key, receiver), (outcome, at_ms))
            past.answers[key, receiver] = (outcome, max(at_ms, before_ms))  # a clock may be set back in between
        elif outcome == "RETRYING":
            past.attempts[key, receiver] = max(row["attempt"] or 0, past.attempts.get((key, receiver), 0))
        elif receiver == EVERYBODY:
            past.withheld = WithheldReason(outcome, row["reason"] or "", at_ms)
            past.is_closed = row["status"] == "resolved"
    return pasts


def is_completed(
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


def restore(
    policy: NotificationPolicy, incident_states: Mapping[str, Sequence[Transition]], pasts: Mapping[str, Past], now: Now
) -> None:
    """Fill a new policy. Incidents that were told come first, so that they keep their place under the limit."""
    rest: list[Transition] = []
    for incident_id, transitions in incident_states.items():
        ordered = sorted(transitions, key=lambda one: one.position)
        past = pasts.get(incident_id, Past())
        for (key, receiver), _ in past.answers.items():
            if ":acknowledged:" in key:
                policy.remember_acknowledged(key, receiver)
        notified = _restore_notified(policy, ordered, past, now)
        if notified is None and past.withheld is not None:
            policy.incident_states[incident_id] = IncidentState(withheld=past.withheld)
        if notified is None or notified.state != "RESOLVED":
            rest += [one for one in ordered if notified is None or one.position > notified.position]
    policy.observe(rest, now)
    policy.notify_newcomers(now)


def _restore_notified(
    policy: NotificationPolicy, ordered: Sequence[Transition], past: Past, now: Now
) -> Transition | None:
    """The newest transition that was due to anybody; the outboxes know again what of it is still owed."""
    incident_state, notified = IncidentState(), None
    for transition in ordered:
        due = past.due.get(transition.notice.key)
        if due is None:
            continue
        notified = transition
        if transition.state != "RESOLVED":
            incident_state.notified = transition.notice
        for receiver, (route, due_at_ms) in due.items():
            incident_state.receivers.setdefault(receiver, route)
            _restore_duty(policy, receiver, Delivery(transition.notice, route, now.pace_of(due_at_ms)), past, now)
    if notified is None:
        return None
    if notified.state == "RESOLVED":
        policy.settle(notified.incident_id)
    else:
        incident_state.fired_at_ms = notified.at_ms
        policy.resume(incident_state, notified)
    return notified


def _restore_duty(policy: NotificationPolicy, receiver: str, delivery: Delivery, past: Past, now: Now) -> None:
    box = policy.outboxes.get(receiver)
    if box is None:
        return  # it is not configured now; should it be again, the log still says what is due to it
    outcome, at_ms = past.answers.get((delivery.key, receiver), (None, 0))
    if outcome == "DELIVERED":
        box.remember(delivery.notice, now.pace_of(at_ms))
    elif outcome == "REFUSED" and delivery.status == "resolved":
        box.forget(delivery.notice)
    elif outcome is None:
        delivery.attempts = past.attempts.get((delivery.key, receiver), 0)
        box.owe(delivery)
