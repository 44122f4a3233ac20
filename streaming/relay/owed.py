"""What is owed: which alerts go to which receivers, and the reasons of the others. Nothing is sent here.

The state is a cache of four tables: open alerts, silences, acknowledgements and alert_deliveries. `load` fills it from
them; each decision is a row of alert_deliveries in `records`, and each alert about the relay a row in `own_rows`.

Notified are the first FIRING row that no rule holds back; then each FIRING row with another cause or severity, or other
queues that have settled; then the RESOLVED row. Once notified, an incident is resolved at its receivers even if it is
inhibited or silenced later; a silence hides only its changes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from conf.oncall import CANARY
from streaming.relay.notice import Notice, Now, Transition, read_transition
from streaming.relay.outbox import Acknowledgement, Delivery, Outbox, Outcome, Record, record_of
from streaming.relay.own_alerts import RelayAlerts, alerts_limited
from streaming.relay.silences import Silences
from streaming.self_monitoring.self_alerts import SelfAlert
from udfs.alerts.firing_limit import ALERTS_LIMITED, Waiting, pick_notified, rank_of
from udfs.alerts.routing import QUIET, Route, pick_receivers
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.alerts.self_kinds import DELIVERY_FAILED, RELAY_KINDS
from udfs.alerts.silence import Quiet, Silence

NO_ROUTE = "no route matches"
"""The reason of a row NO_ROUTE."""

MOST_COMPLETED = 100_000
"""Names of resolved incidents that are kept, so that a row that is read twice is not notified twice."""

CAUSE_WAIT_MS = 120_000
"""Time that an inhibited alert waits for a cause that has not fired; most causes need less."""

SETTLE_MS, LONGEST_SETTLE_MS, SETTLE_PATIENCE = 30_000, 900_000, 4
"""A change of the queues alone must last for half a minute, doubled with each notified change; at most four times that,
if the list never settles.
"""


@dataclass(frozen=True)
class WithheldReason:
    """Why the incident's newest row is not notified: the silence, the inhibitor, the limit, or no route."""

    outcome: Outcome
    reason: str
    at_ms: int


@dataclass
class _Change:
    """A change of the queues that is not notified yet. Times are by the pace."""

    queues: tuple[str, ...]
    since_ms: int
    changed_ms: int

    def settles_at_ms(self, earlier: int) -> int:
        """Return when the change is notified; `earlier` is the number of changes notified before it."""
        settle_ms = min(LONGEST_SETTLE_MS, SETTLE_MS << min(earlier, 10))
        return min(self.changed_ms + settle_ms, self.since_ms + SETTLE_PATIENCE * settle_ms)


@dataclass
class Incident:
    """One incident that is not over.

    fired_at_ms      when it first fired without an inhibitor
    last_firing      the newest FIRING row without an inhibitor
    stopped_at_ms    the first RECOVERING row after the last FIRING one
    notified         what its receivers were notified of last
    receivers        receiver → the route that selected it
    withheld         why `newest` is not notified
    waits_for        the incident that inhibits it
    unsure_since_ms  since when it waits for a cause that has not fired
    changes          notified changes of the queues alone
    """

    newest: Transition | None = None
    fired_at_ms: int | None = None
    last_firing: Notice | None = None
    stopped_at_ms: int | None = None
    notified: Notice | None = None
    receivers: dict[str, str] = field(default_factory=dict)
    withheld: WithheldReason | None = None
    waits_for: str | None = None
    unsure_since_ms: int | None = None
    changes: int = 0

    def follow(self, transition: Transition) -> None:
        """Take the incident's next row."""
        self.newest = transition
        if transition.state == "FIRING":
            self.stopped_at_ms = None
        elif transition.state == "RECOVERING" and self.stopped_at_ms is None:
            self.stopped_at_ms = transition.at_ms

    def is_decided(self) -> bool:
        """Return whether it has fired: it is notified, or the reason why not is recorded."""
        return self.notified is not None or self.withheld is not None

    def is_known(self) -> bool:
        """Return whether a person knows of it or has silenced it: not if only the log has it, or no route matches."""
        if self.notified is not None:
            return any(route != QUIET for route in self.receivers.values())
        return self.withheld is not None and self.withheld.outcome != "NO_ROUTE"

    def is_news(self, notice: Notice) -> bool:
        """Return whether the notice differs from the notified one."""
        return self.notified is None or notice.content() != self.notified.content()


@dataclass
class Line:
    """What alert_deliveries says of one notice and receiver. Times are epoch ms; `outcome` is None while pending."""

    route: str | None = None
    due_at_ms: int = 0
    attempts: int = 0
    outcome: Outcome | None = None
    answered_at_ms: int = 0


@dataclass
class Past:
    """What alert_deliveries says of one incident; `lines` are by delivery key, then by receiver."""

    lines: dict[str, dict[str, Line]] = field(default_factory=dict)
    withheld: WithheldReason | None = None


class Owed:
    """Give it rows, silences and acknowledgements; it fills the outboxes, `records` and `own_rows`.

    `decided` counts all records; a delivery has the number of its own.
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
        """`quiet` receivers get the info alerts that no route selects; see RelayAlerts for `lost_after_ms`."""
        self.outboxes = outboxes
        self.incidents: dict[str, Incident] = {}
        self.completed: dict[str, None] = {}
        self.records: list[Record] = []
        self.decided = 0
        self.own_rows: list[dict[str, Any]] = []
        self._routes, self._quiet, self._limit = routes, quiet, limit
        self._silences = Silences(mutes)
        self._own = RelayAlerts(resend_ms, lost_after_ms)
        self._silenced: dict[str, Incident] = {}
        self._changed: dict[str, _Change] = {}
        self._effects: dict[str, dict[str, Incident]] = {}
        self._unknown_causes: set[str] = set()
        self._limited: dict[tuple[str, str], dict[str, Incident]] = {}
        self._places: dict[tuple[str, str], set[str]] = {}
        self._acknowledgements: dict[str, dict[int, Acknowledgement]] = {}
        self._acknowledged: set[tuple[str, str]] = set()
        self._is_ending = False

    def load(
        self, rows: Mapping[str, Sequence[Transition]], pasts: Mapping[str, Past], completed: Iterable[str], now: Now
    ) -> None:
        """Fill an empty cache from the tables. Notified incidents come first and keep their place under the limit."""
        for incident_id in completed:
            self._close(incident_id)
        rest: list[Transition] = []
        for incident_id, transitions in rows.items():
            ordered = sorted(transitions, key=lambda row: row.position)
            past = pasts.get(incident_id, Past())
            for key, lines in past.lines.items():
                if ":acknowledged:" in key:
                    self._acknowledged |= {(key, receiver) for receiver, line in lines.items() if line.outcome}
            notified = self._load_notified(ordered, past, now)
            if notified is None and past.withheld is not None:
                self.incidents[incident_id] = Incident(withheld=past.withheld)
            if notified is None or notified.state != "RESOLVED":
                rest += [row for row in ordered if notified is None or row.position > notified.position]
        self.observe(rest, now)
        for incident in self.incidents.values():  # receivers that the routes name since the last start
            if (notice := incident.notified) is not None:
                for receiver, route in self._receivers_of(notice).items():
                    if receiver not in incident.receivers:
                        incident.receivers[receiver] = route
                        self._owe(notice, receiver, route, now)

    def _load_notified(self, ordered: Sequence[Transition], past: Past, now: Now) -> Transition | None:
        """Return the newest row that was due to a receiver; the outboxes get what of it is still pending."""
        incident, newest = Incident(), None
        for row in ordered:
            for receiver, line in past.lines.get(row.notice.key, {}).items():
                if line.route is None:
                    continue
                newest = row
                incident.receivers.setdefault(receiver, line.route)
                box = self.outboxes.get(receiver)
                if box is None:
                    continue  # not configured now; if it is again, the log still has what is due to it
                if line.outcome == "DELIVERED":
                    box.remember(row.notice, now.pace_of(line.answered_at_ms))
                elif line.outcome is None:
                    box.owe(Delivery(row.notice, line.route, now.pace_of(line.due_at_ms), line.attempts))
                elif row.state == "RESOLVED":
                    box.forget(row.notice)
            if newest is row and row.state != "RESOLVED":
                incident.notified = row.notice
        if newest is not None and newest.state == "RESOLVED":
            self._close(newest.incident_id)
        elif newest is not None:
            incident.fired_at_ms, incident.newest = newest.at_ms, newest
            self.incidents[newest.incident_id] = incident
            self._place(newest.notice)
            self._own.note(newest)
        return newest

    def observe(self, transitions: Iterable[Transition], now: Now) -> None:
        """Take rows of the alerts table, new or repeated, in any order."""
        ordered = sorted(transitions, key=lambda row: (row.incident_id, row.position))
        new: list[Transition] = []
        for incident_id, group in groupby(ordered, key=lambda row: row.incident_id):
            rows = list(group)
            if incident_id not in self.completed and not self._was_silent_throughout(incident_id, rows, now):
                new += rows
        for transition in sorted(new, key=lambda row: row.chronology):
            self._take(transition, now)

    def set_silences(self, silences: Iterable[Silence]) -> None:
        self._silences.replace(silences)

    def acknowledge(self, acknowledgements: Iterable[Acknowledgement], now: Now) -> None:
        """Forward each acknowledgement once to the receivers that support it, as soon as they know the incident."""
        for given in acknowledgements:
            if given.incident_id not in self.completed:
                self._acknowledgements.setdefault(given.incident_id, {})[given.at_ms] = given
                if (incident := self.incidents.get(given.incident_id)) is not None:
                    self._forward_acknowledgements(given.incident_id, incident, now)

    def advance(self, now: Now) -> None:
        """Decide what time changes: silences, waits, the relay's own alerts, late ends."""
        if self._silences.has_changed(now.wall_ms):
            limited = [incident for waiting in self._limited.values() for incident in waiting.values()]
            for incident in [*self._silenced.values(), *limited]:
                self._consider(incident, now)
        effects = [incident for waiting in self._effects.values() for incident in waiting.values()]
        due = [one for one in effects if one.unsure_since_ms is not None and not self._may_wait(one, now)]
        due += [
            self.incidents[incident_id]
            for incident_id, change in self._changed.items()
            if self._is_ending or now.pace_ms >= change.settles_at_ms(self.incidents[incident_id].changes)
        ]
        for incident in due:
            self._consider(incident, now)
        for row in self._own.rows(self._count_limited(), self.outboxes, now):
            self.own_rows.append(row)
            self._take(read_transition(row), now)
        for box in self.outboxes.values():
            self.log(box.give_up(now))

    def log(self, records: Sequence[Record]) -> None:
        self.records += records
        self.decided += len(records)

    def flush(self, now: Now) -> None:
        """Notify what only waits for time to pass: the relay ends."""
        self._is_ending = True
        self.advance(now)

    def note_canary(self, now: Now) -> None:
        """Note that a canary arrived."""
        self._own.note_canary(now.pace_ms)

    def withheld(self) -> Iterator[tuple[Notice, WithheldReason]]:
        """Yield the incidents whose newest row is not notified, with the reasons."""
        for incident in self.incidents.values():
            if incident.withheld and incident.newest and incident.is_news(incident.newest.notice):
                yield incident.newest.notice, incident.withheld

    def _was_silent_throughout(self, incident_id: str, rows: Sequence[Transition], now: Now) -> bool:
        """Return whether it began and ended between two polls, covered by silences for all of its time."""
        incident = self.incidents.get(incident_id, Incident())
        if incident.notified is not None or rows[-1].state != "RESOLVED":
            return False
        first = next((row for row in rows if row.state == "FIRING" and row.inhibited_by is None), None)
        if first is None:
            return False
        from_ms = max(first.at_ms, incident.withheld.at_ms) if incident.withheld is not None else first.at_ms
        life = Incident()
        for row in rows:
            life.follow(row)
        until_ms = rows[-1].at_ms if life.stopped_at_ms is None else life.stopped_at_ms
        silence = self._silences.pick_throughout(first.notice, from_ms, until_ms)
        if silence is None:
            return False
        self._record(rows[-1].notice, "SILENCED", now, reason=silence.silence_id)
        self._leave_waits(incident, first.notice)
        self._close(incident_id)
        return True

    def _take(self, transition: Transition, now: Now) -> None:
        incident = self.incidents.setdefault(transition.incident_id, Incident())
        if incident.newest is not None and transition.position <= incident.newest.position:
            return
        incident.follow(transition)
        self._own.note(transition)
        if transition.state == "RESOLVED":
            self._end(incident, transition, now)
        else:
            self._consider(incident, now)

    def _consider(self, incident: Incident, now: Now) -> None:
        """Notify its newest row, or withhold it by the first rule that applies. Repeated when that may have changed."""
        row = incident.newest
        assert row is not None, "it has a row"  # noqa: S101  # _take set it
        notice = row.notice
        self._leave_waits(incident, notice)
        if row.state != "FIRING" or not incident.is_news(notice):
            self._changed.pop(notice.incident_id, None)
            return
        receivers = self._receivers_of(notice)
        # Rule 1. An inhibited alert waits under its cause, as long as a person knows of the cause.
        if row.inhibited_by is not None and self._is_explained(incident, receivers, row.inhibited_by, now):
            if incident.notified is None:
                incident.waits_for = row.inhibited_by
                self._effects.setdefault(row.inhibited_by, {})[notice.incident_id] = incident
                self._withhold(incident, notice, "INHIBITED", row.inhibited_by, now)
            return
        # Rule 2. An alert that no route selects is recorded; alerts that it inhibits no longer wait for it.
        if incident.notified is None and not receivers:
            self._withhold(incident, notice, "NO_ROUTE", NO_ROUTE, now)
            self._free_effects(notice.incident_id, now)
            return
        incident.fired_at_ms = row.at_ms if incident.fired_at_ms is None else incident.fired_at_ms
        incident.last_firing = notice
        # Rule 3. A silenced or muted alert is considered again when the silence ends.
        silence = self._silences.pick(notice, now.wall_ms)
        if silence is not None:
            self._silenced[notice.incident_id] = incident
            self._withhold(incident, notice, "SILENCED", silence.silence_id, now)
        # Rule 4. A notified alert is notified again, once a change of its queues alone has settled.
        elif incident.notified is not None or notice.kind in RELAY_KINDS:
            if incident.notified is None or self._has_settled(incident, incident.notified, notice, now.pace_ms):
                self._notify(incident, notice, now)
        # Rule 5. At most `limit` alerts of a kind and cluster are notified at a time; the earliest come first.
        else:
            self._limited.setdefault((notice.cluster, notice.kind), {})[notice.incident_id] = incident
            self._admit(notice, now)
            if incident.notified is None:
                self._withhold(incident, notice, "LIMITED", self._limit_reason, now)

    def _is_explained(self, incident: Incident, receivers: Mapping[str, str], cause_id: str, now: Now) -> bool:
        """Return whether the cause represents an effect that would go to these receivers.

        Not if no route selects the cause, or only the log has it and not the effect. A cause that is not read yet is
        believed; one that has not fired is believed for CAUSE_WAIT_MS, or until it ends.
        """
        if cause_id in self._unknown_causes:
            return False
        cause = self.incidents.get(cause_id)
        if cause is None or all(route == QUIET for route in receivers.values()):
            return True
        if cause.is_decided():
            incident.unsure_since_ms = None
            return cause.is_known()
        if incident.unsure_since_ms is None:
            incident.unsure_since_ms = now.pace_ms
        return self._may_wait(incident, now)

    def _may_wait(self, incident: Incident, now: Now) -> bool:
        return not self._is_ending and now.pace_ms < (incident.unsure_since_ms or now.pace_ms) + CAUSE_WAIT_MS

    def _has_settled(self, incident: Incident, notified: Notice, notice: Notice, pace_ms: int) -> bool:
        """Return whether a change is notified now: another cause or severity at once, other queues once they settle."""
        if notice.content(with_queues=False) != notified.content(with_queues=False):
            self._changed.pop(notice.incident_id, None)
            return True
        change = self._changed.setdefault(notice.incident_id, _Change(notice.queues, pace_ms, pace_ms))
        if change.queues != notice.queues:
            change.queues, change.changed_ms = notice.queues, pace_ms
        if not self._is_ending and pace_ms < change.settles_at_ms(incident.changes):
            return False
        del self._changed[notice.incident_id]
        incident.changes += 1
        return True

    def _notify(self, incident: Incident, notice: Notice, now: Now) -> None:
        incident.notified, incident.withheld = notice, None
        self._place(notice)
        incident.receivers = {**self._receivers_of(notice), **incident.receivers}
        for receiver, route in incident.receivers.items():
            self._owe(notice, receiver, route, now)
        self._forward_acknowledgements(notice.incident_id, incident, now)
        if not incident.is_known():
            self._free_effects(notice.incident_id, now)

    def _end(self, incident: Incident, end: Transition, now: Now) -> None:
        self._leave_waits(incident, end.notice)
        if incident.notified is None and incident.withheld is not None and incident.withheld.outcome == "SILENCED":
            self._notify_if_silence_left_a_gap(incident, end, now)
        if incident.notified is not None:
            for receiver, route in incident.receivers.items():
                self._owe(end.notice, receiver, route, now)
        elif incident.withheld is not None:
            self._record(end.notice, incident.withheld.outcome, now, reason=incident.withheld.reason)
        self._close(end.incident_id)
        if not incident.is_decided():
            self._free_effects(end.incident_id, now, is_over=True)
        self._places.get((end.notice.cluster, end.notice.kind), set()).discard(end.incident_id)
        self._admit(end.notice, now)

    def _notify_if_silence_left_a_gap(self, incident: Incident, end: Transition, now: Now) -> None:
        """Notify an incident that continued to fire after its silence ended, between two polls."""
        if incident.withheld is None or incident.last_firing is None or incident.fired_at_ms is None:
            return
        from_ms = max(incident.withheld.at_ms, incident.fired_at_ms)
        until_ms = end.at_ms if incident.stopped_at_ms is None else incident.stopped_at_ms
        if from_ms >= until_ms or self._silences.pick_throughout(end.notice, from_ms, until_ms):
            return
        if len(self._places.get((end.notice.cluster, end.notice.kind), ())) < self._limit:
            self._notify(incident, incident.last_firing, now)
        else:
            incident.withheld = WithheldReason("LIMITED", self._limit_reason, now.wall_ms)

    def _close(self, incident_id: str) -> None:
        """Nothing more is decided about this incident."""
        self.incidents.pop(incident_id, None)
        self._changed.pop(incident_id, None)
        self._acknowledgements.pop(incident_id, None)
        self.completed[incident_id] = None
        while len(self.completed) > MOST_COMPLETED:
            del self.completed[next(iter(self.completed))]

    def _free_effects(self, cause_id: str, now: Now, *, is_over: bool = False) -> None:
        """Consider the effects of a cause that no person knows of."""
        effects = list(self._effects.get(cause_id, {}).values())
        if is_over and effects:
            self._unknown_causes.add(cause_id)
        for effect in effects:
            self._consider(effect, now)

    def _leave_waits(self, incident: Incident, notice: Notice) -> None:
        self._silenced.pop(notice.incident_id, None)
        self._limited.get((notice.cluster, notice.kind), {}).pop(notice.incident_id, None)
        if incident.waits_for is not None:
            effects = self._effects.get(incident.waits_for, {})
            effects.pop(notice.incident_id, None)
            if not effects:
                self._effects.pop(incident.waits_for, None)
            incident.waits_for = None

    def _place(self, notice: Notice) -> None:
        """Count a notified alert under the limit, even beyond it; it keeps its place until it resolves."""
        self._places.setdefault((notice.cluster, notice.kind), set()).add(notice.incident_id)

    def _admit(self, like: Notice, now: Now) -> None:
        """Notify as many waiting alerts of this kind and cluster as the limit has room for."""
        scope = (like.cluster, like.kind)
        places, waiting = self._places.setdefault(scope, set()), self._limited.get(scope, {})
        if not waiting or len(places) >= self._limit:
            return
        notices = {name: one.newest.notice for name, one in waiting.items() if one.newest is not None}
        queue = [Waiting(waiting[name].fired_at_ms or 0, rank_of(one.severity), name) for name, one in notices.items()]
        admitted = pick_notified(len(places), queue, self._limit)
        places.update(admitted)
        for name in admitted:
            self._notify(waiting.pop(name), notices[name], now)

    @property
    def _limit_reason(self) -> str:
        return f"the limit of {self._limit} alerts of this kind and cluster is reached"

    def _limited_notices(self, cluster: str, kind: str) -> list[Notice]:
        waiting = self._limited.get((cluster, kind), {})
        return [one.newest.notice for one in waiting.values() if one.newest is not None]

    def _count_limited(self) -> Iterator[SelfAlert]:
        for cluster, kind in self._limited:
            if notices := self._limited_notices(cluster, kind):
                worst = min((notice.severity for notice in notices), key=rank_of)
                yield alerts_limited(cluster, kind, len(notices), self._limit, worst)

    def _receivers_of(self, notice: Notice) -> dict[str, str]:
        """Return receiver → route. The canary and the relay's own alerts have routes that are not configured."""
        if notice.cluster == CANARY_CLUSTER:
            return {CANARY: CANARY} if CANARY in self.outboxes else {}
        if notice.kind == DELIVERY_FAILED:
            failing = {CANARY, notice.labels.get("receiver")}
            return {name: DELIVERY_FAILED for name in self.outboxes if name not in failing}
        if notice.kind == ALERTS_LIMITED:
            limited = self._limited_notices(notice.cluster, notice.labels.get("limited_kind", ""))
            return {name: ALERTS_LIMITED for one in limited for name in self._receivers_of(one)}
        picked = pick_receivers(self._routes, notice.match_labels(), self._quiet)
        return {name: route for name, route in picked.items() if name in self.outboxes}

    def _forward_acknowledgements(self, incident_id: str, incident: Incident, now: Now) -> None:
        if incident.notified is None:
            return
        for given in self._acknowledgements.pop(incident_id, {}).values():
            notice = replace(
                incident.notified,
                status="acknowledged",
                reason=f"acknowledged by {given.acknowledged_by}",
                acknowledged_at_ms=given.at_ms,
            )
            for receiver in incident.receivers:
                box = self.outboxes.get(receiver)
                if box is not None and box.traits.can_acknowledge and (notice.key, receiver) not in self._acknowledged:
                    self._acknowledged.add((notice.key, receiver))
                    box.owe(Delivery(notice, "acknowledgement", now.pace_ms))

    def _owe(self, notice: Notice, receiver: str, route: str, now: Now) -> None:
        """Record and queue a notification; recorded too for a receiver that is not configured now."""
        self._record(notice, "PENDING", now, receiver=receiver, route=route)
        if (box := self.outboxes.get(receiver)) is not None:
            box.owe(Delivery(notice, route, now.pace_ms, record_number=self.decided))

    def _withhold(self, incident: Incident, notice: Notice, outcome: Outcome, reason: str, now: Now) -> None:
        withheld = incident.withheld
        if withheld is None or (withheld.outcome, withheld.reason) != (outcome, reason):
            incident.withheld = WithheldReason(outcome, reason, now.wall_ms)
            self._record(notice, outcome, now, reason=reason)

    def _record(self, notice: Notice, outcome: Outcome, now: Now, **fields: Any) -> None:
        self.log([record_of(notice, outcome, now.wall_ms, **fields)])
