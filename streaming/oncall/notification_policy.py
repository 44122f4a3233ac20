"""The notification policy: which alerts go to which receivers, and the reasons of the others. It sends nothing.

Notified are the first FIRING row that is neither inhibited, silenced nor limited; then each FIRING row with another
cause or severity, or with other queues that have settled; then the RESOLVED row. A notified incident is resolved at its
receivers even if it is inhibited or silenced later; a silence hides only its changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from streaming.oncall.acknowledged import Acknowledged
from streaming.oncall.address_book import AddressBook
from streaming.oncall.delivery import Acknowledgement, Delivery
from streaming.oncall.incident_state import IncidentState, WithheldReason, content, fired_until_ms
from streaming.oncall.inhibition import Inhibition
from streaming.oncall.notice import Notice
from streaming.oncall.now import Now
from streaming.oncall.outbox import Outbox
from streaming.oncall.rate_limit import RateLimit
from streaming.oncall.record import Outcome, Record, record_of
from streaming.oncall.relay_alerts import RelayAlerts
from streaming.oncall.silences import Silences
from streaming.oncall.transition import Transition, read_transition
from streaming.oncall.updates import Updates
from udfs.alerts.routing import Route
from udfs.alerts.self_kinds import RELAY_KINDS
from udfs.alerts.silence import Quiet, Silence

NO_ROUTE = "no route matches"
"""The reason of a row NO_ROUTE."""

MOST_COMPLETED = 100_000
"""Incidents that are over and are still known by name, so that a row read twice tells nobody twice."""


class NotificationPolicy:
    """Give it rows, silences and acknowledgements; it fills the outboxes, `records` and `own_rows`.

    The caller takes the last two away: rows for alert_deliveries, and alerts of our own for the alerts table.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        outboxes: Mapping[str, Outbox],
        *,
        limit: int,
        resend_ms: int,
        quiet: Sequence[str] = (),
        lost_after_ms: int | None = None,
        mutes: Sequence[Quiet] = (),
    ) -> None:
        """`quiet` are the receivers that get the info alerts no route takes; `lost_after_ms` is RelayAlerts's; `mutes`
        are silences that recur.
        """
        self.outboxes = outboxes
        self.incident_states: dict[str, IncidentState] = {}
        self.completed: dict[str, None] = {}
        self.records: list[Record] = []
        self.own_rows: list[dict[str, Any]] = []
        self._silences = Silences(mutes)
        self._silenced: dict[str, IncidentState] = {}
        self._rate_limit = RateLimit(limit)
        self._addresses = AddressBook(routes, quiet, outboxes.keys(), self._rate_limit)
        self._inhibition = Inhibition()
        self._updates = Updates()
        self._own = RelayAlerts(resend_ms, lost_after_ms)
        self._acknowledged = Acknowledged(outboxes)

    def observe(self, transitions: Iterable[Transition], now: Now) -> None:
        """Rows of the alerts table, seen before or not, in any order."""
        ordered = sorted(transitions, key=lambda one: (one.incident_id, one.position))
        new: list[Transition] = []
        for incident_id, group in groupby(ordered, key=lambda one: one.incident_id):
            rows = list(group)
            if incident_id in self.completed or self._was_silent_throughout(incident_id, rows, now):
                continue
            new.extend(rows)
        for transition in sorted(new, key=_chronology):
            self._take(transition, now)

    def set_silences(self, silences: Iterable[Silence]) -> None:
        self._silences.replace(silences)

    def acknowledge(self, words: Iterable[Acknowledgement], now: Now) -> None:
        """Somebody is at it: told to those receivers of the incident that can note it, once, when they know of it."""
        for word in words:
            if word.incident_id not in self.completed:
                self._acknowledged.note(word)
                self._acknowledged.notify(
                    word.incident_id, self.incident_states.get(word.incident_id, IncidentState()), now
                )

    def remember_acknowledged(self, delivery_key: str, receiver: str) -> None:
        """This receiver has it already, from before a restart."""
        self._acknowledged.remember(delivery_key, receiver)

    def advance(self, now: Now) -> None:
        """Do what only time brings: silences that begin and end, our own alerts, ends that came too late."""
        if self._silences.has_changed(now.wall_ms):
            for incident_state in [*self._silenced.values(), *self._rate_limit.waiting()]:
                self._consider(incident_state, now)
        for incident_state in [*self._inhibition.due(now.pace_ms), *self._updates.due(now.pace_ms)]:
            self._consider(incident_state, now)
        for row in self._own.rows(self._rate_limit.counted(), self.outboxes, now):
            self.own_rows.append(row)
            self._take(read_transition(row), now)
        for box in self.outboxes.values():
            self.records += box.give_up(now)

    def flush(self, now: Now) -> None:
        """Tell what only waits for time to pass: the relay ends, and nobody knows when the next one comes."""
        for incident_state in [*self._inhibition.flush(), *self._updates.flush()]:
            self._consider(incident_state, now)

    def resume(self, incident_state: IncidentState, newest: Transition) -> None:
        """An incident that was told before a restart and is not over."""
        incident_state.newest = newest
        self.incident_states[newest.incident_id] = incident_state
        self._rate_limit.take(newest.notice)
        self._own.note(newest)

    def settle(self, incident_id: str) -> None:
        """Nothing more will be decided about it."""
        self.incident_states.pop(incident_id, None)
        for part in (self._acknowledged, self._inhibition, self._updates):
            part.forget(incident_id)
        self.completed[incident_id] = None
        while len(self.completed) > MOST_COMPLETED:
            del self.completed[next(iter(self.completed))]

    def notify_newcomers(self, now: Now) -> None:
        """An open incident is told to receivers that the routes name since a restart, too."""
        for incident_state in self.incident_states.values():
            if incident_state.notified is not None:
                for receiver, route in self._addresses.receivers_of(incident_state.notified).items():
                    if receiver not in incident_state.receivers:
                        incident_state.receivers[receiver] = route
                        self._owe(incident_state.notified, receiver, route, now)

    def _was_silent_throughout(self, incident_id: str, rows: Sequence[Transition], now: Now) -> bool:
        """It came and went while nobody looked, and a silence covered all of it."""
        incident_state = self.incident_states.get(incident_id, IncidentState())
        if incident_state.notified is not None or rows[-1].state != "RESOLVED":
            return False
        first = next((row for row in rows if row.state == "FIRING" and row.inhibited_by is None), None)
        if first is None:
            return False
        from_ms = (
            max(first.at_ms, incident_state.withheld.at_ms) if incident_state.withheld is not None else first.at_ms
        )
        silence = self._silences.pick_throughout(first.notice, from_ms, fired_until_ms(rows))
        if silence is None:
            return False
        self._record(rows[-1].notice, "SILENCED", now, reason=silence.silence_id)
        self.settle(incident_id)
        return True

    def _take(self, transition: Transition, now: Now) -> None:
        incident_state = self.incident_states.setdefault(transition.incident_id, IncidentState())
        if incident_state.newest is not None and transition.position <= incident_state.newest.position:
            return
        incident_state.follow(transition)
        self._own.note(transition)
        if transition.state == "RESOLVED":
            self._end(incident_state, transition, now)
        else:
            self._consider(incident_state, now)

    def _consider(self, incident_state: IncidentState, now: Now) -> None:
        """Notify its newest row, or withhold it for a reason. Considered again when the reason may be gone."""
        transition = incident_state.newest
        assert transition is not None, "it has a row"  # noqa: S101  # _take gave it one
        self._unqueue(transition)
        notice = transition.notice
        if transition.state != "FIRING" or (
            incident_state.notified is not None and content(notice) == content(incident_state.notified)
        ):
            self._updates.drop(notice.incident_id)
            return
        receivers = self._addresses.receivers_of(notice)
        cause_id = transition.inhibited_by
        if cause_id is not None and self._is_explained(notice, receivers, cause_id, now):
            if incident_state.notified is None:
                self._inhibition.wait(notice.incident_id, incident_state, cause_id)
                self._withhold(incident_state, notice, "INHIBITED", cause_id, now)
            return
        if incident_state.notified is None and not receivers:
            self._withhold(incident_state, notice, "NO_ROUTE", NO_ROUTE, now)
            self._free_effects(notice.incident_id, now)
            return
        if incident_state.fired_at_ms is None:
            incident_state.fired_at_ms = transition.at_ms
        incident_state.last_firing = notice
        silence = self._silences.pick(notice, now.wall_ms)
        if silence is not None:
            self._silenced[notice.incident_id] = incident_state
            self._withhold(incident_state, notice, "SILENCED", silence.silence_id, now)
        elif incident_state.notified is not None or notice.kind in RELAY_KINDS:
            if incident_state.notified is None or not self._updates.is_held(
                incident_state, incident_state.notified, notice, now.pace_ms
            ):
                self._notify(incident_state, notice, now)
        else:
            self._rate_limit.wait(notice, incident_state)
            self._admit(notice, now)
            if incident_state.notified is None:
                self._withhold(incident_state, notice, "LIMITED", self._rate_limit.reason, now)

    def _is_explained(self, notice: Notice, receivers: Mapping[str, str], cause_id: str, now: Now) -> bool:
        cause = self.incident_states.get(cause_id)
        return self._inhibition.is_explained(notice.incident_id, receivers, cause_id, cause, now.pace_ms)

    def _admit(self, like: Notice, now: Now) -> None:
        """Tell as many of those held back as the limit leaves room for."""
        for incident_state, notice in self._rate_limit.admit(like):
            self._notify(incident_state, notice, now)

    def _notify(self, incident_state: IncidentState, notice: Notice, now: Now) -> None:
        incident_state.notified, incident_state.withheld = notice, None
        self._rate_limit.take(notice)
        incident_state.receivers = {**self._addresses.receivers_of(notice), **incident_state.receivers}
        for receiver, route in incident_state.receivers.items():
            self._owe(notice, receiver, route, now)
        self._acknowledged.notify(notice.incident_id, incident_state, now)
        if not incident_state.is_heard():
            self._free_effects(notice.incident_id, now)

    def _free_effects(self, cause_id: str, now: Now, *, is_over: bool = False) -> None:
        """Nobody hears of the cause: whoever hears of its effects must."""
        for effect in self._inhibition.release(cause_id, is_over=is_over):
            self._consider(effect, now)

    def _end(self, incident_state: IncidentState, transition: Transition, now: Now) -> None:
        self._unqueue(transition)
        if (
            incident_state.notified is None
            and incident_state.withheld is not None
            and incident_state.withheld.outcome == "SILENCED"
        ):
            self._notify_if_silence_left_a_gap(incident_state, transition, now)
        if incident_state.notified is not None:
            for receiver, route in incident_state.receivers.items():
                self._owe(transition.notice, receiver, route, now)
        elif incident_state.withheld is not None:
            self._record(transition.notice, incident_state.withheld.outcome, now, reason=incident_state.withheld.reason)
        self.settle(transition.incident_id)
        if not incident_state.is_decided():
            self._free_effects(transition.incident_id, now, is_over=True)
        self._rate_limit.free(transition.notice)
        self._admit(transition.notice, now)

    def _notify_if_silence_left_a_gap(self, incident_state: IncidentState, end: Transition, now: Now) -> None:
        """It fired on after its silence ended, while nobody looked: then it should have been told, and is."""
        if incident_state.withheld is None or incident_state.last_firing is None or incident_state.fired_at_ms is None:
            return
        from_ms = max(incident_state.withheld.at_ms, incident_state.fired_at_ms)
        until_ms = end.at_ms if incident_state.stopped_at_ms is None else incident_state.stopped_at_ms
        if from_ms >= until_ms or self._silences.pick_throughout(end.notice, from_ms, until_ms):
            return
        if self._rate_limit.has_room(end.notice):
            self._notify(incident_state, incident_state.last_firing, now)
        else:
            incident_state.withheld = WithheldReason("LIMITED", self._rate_limit.reason, now.wall_ms)

    def note_canary(self, now: Now) -> None:
        """The canary has arrived."""
        self._own.note_canary(now.pace_ms)

    def _owe(self, notice: Notice, receiver: str, route: str, now: Now) -> None:
        """Also where the receiver is not configured now: the log tells the relay that finds it again."""
        if (box := self.outboxes.get(receiver)) is not None:
            box.owe(Delivery(notice, route, now.pace_ms))
        self._record(notice, "PENDING", now, receiver=receiver, route=route)

    def _withhold(self, incident_state: IncidentState, notice: Notice, outcome: Outcome, reason: str, now: Now) -> None:
        if incident_state.withheld is None or (incident_state.withheld.outcome, incident_state.withheld.reason) != (
            outcome,
            reason,
        ):
            incident_state.withheld = WithheldReason(outcome, reason, now.wall_ms)
            self._record(notice, outcome, now, reason=reason)

    def _unqueue(self, transition: Transition) -> None:
        self._silenced.pop(transition.incident_id, None)
        self._inhibition.leave(transition.incident_id)
        self._rate_limit.leave(transition.notice)

    def _record(self, notice: Notice, outcome: Outcome, now: Now, **fields: Any) -> None:
        self.records.append(record_of(notice, outcome, now.wall_ms, **fields))


def _chronology(transition: Transition) -> tuple[int, int, tuple[int, int], str]:
    """Of one moment the end of an alert's older incident comes before the beginning of the newer."""
    return transition.at_ms, transition.notice.started_at_ms, transition.position, transition.incident_id
