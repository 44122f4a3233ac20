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
from streaming.relay.notice import (
    EVERYBODY,
    Acknowledgement,
    Notice,
    Now,
    Outcome,
    Record,
    Transition,
    read_transition,
    record_of,
)
from streaming.relay.outbox import Outbox
from streaming.relay.own_alerts import RelayAlerts, alerts_limited
from streaming.relay.silences import Silences
from streaming.relay.tables import MOST_COMPLETED, History
from streaming.self_monitoring.self_alerts import SelfAlert
from udfs.alerts.firing_limit import ALERTS_LIMITED, Waiting, pick_notified, rank_of
from udfs.alerts.routing import QUIET, Route, pick_receivers, pick_watchdog_receivers
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.alerts.self_kinds import DELIVERY_FAILED, RELAY_KINDS
from udfs.alerts.silence import Quiet

NO_ROUTE = "no route matches"
"""The reason of a row NO_ROUTE."""

CAUSE_WAIT_MS = 120_000
"""Time that an inhibited alert waits for a cause that has not fired; most causes need less."""

SETTLE_MS, LONGEST_SETTLE_MS, SETTLE_PATIENCE = 30_000, 900_000, 4
"""A change of the queues alone must last for half a minute, doubled with each notified change; at most four times that,
if the list never settles.
"""

SILENCED = ("silence",)
"""What silenced incidents wait for; others wait for ("cause", incident_id) or ("limit", cluster, kind)."""


@dataclass
class Incident:
    """One incident that is not over.

    fired_at_ms      when it first fired without an inhibitor
    last_firing      the newest FIRING row without an inhibitor
    stopped_at_ms    the first RECOVERING row after the last FIRING one
    notified         what its receivers were notified of last
    receivers        receiver → the route that selected it
    withheld         the row of the log that says why `newest` is not notified
    waits_for        what may change that
    unsure_since_ms  since when it waits for a cause that has not fired
    changing         a change of the queues that is not notified yet: the queues, since when it is pending, and since
                     when these are the queues; by the pace
    changes          notified changes of the queues alone
    """

    newest: Transition | None = None
    fired_at_ms: int | None = None
    last_firing: Notice | None = None
    stopped_at_ms: int | None = None
    notified: Notice | None = None
    receivers: dict[str, str] = field(default_factory=dict)
    withheld: Record | None = None
    waits_for: tuple[str, ...] | None = None
    unsure_since_ms: int | None = None
    changing: tuple[tuple[str, ...], int, int] | None = None
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

    def settles_at_ms(self) -> int:
        """Return when the change of its queues is notified."""
        assert self.changing is not None, "its queues change"  # noqa: S101  # the caller asks only of those
        _, since_ms, changed_ms = self.changing
        settle_ms = min(LONGEST_SETTLE_MS, SETTLE_MS << min(self.changes, 10))
        return min(changed_ms + settle_ms, since_ms + SETTLE_PATIENCE * settle_ms)


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
        self.silences = Silences(mutes)
        self.own_alerts = RelayAlerts(resend_ms, lost_after_ms)
        self.records: list[Record] = []
        self.decided = 0
        self.own_rows: list[dict[str, Any]] = []
        self.watchers = pick_watchdog_receivers(routes)
        self._routes, self._quiet, self._limit = routes, quiet, limit
        self._limit_reason = f"the limit of {limit} alerts of this kind and cluster is reached"
        self._waiting: dict[tuple[str, ...], dict[str, Incident]] = {}
        self._changing: dict[str, Incident] = {}
        self._unknown_causes: set[str] = set()
        self._places: dict[tuple[str, str], set[str]] = {}
        self._acknowledgements: dict[str, dict[int, Acknowledgement]] = {}
        self._acknowledged: set[tuple[str, str]] = set()
        self._is_ending = False
        self._history_until_ms = 0

    def load(self, history: History, now: Now) -> None:
        """Fill an empty cache from the tables. Notified incidents come first and keep their place under the limit."""
        self.completed = dict.fromkeys(history.completed)
        transitions = {row.notice.key: row for row in history.transitions if row.state in ("FIRING", "RESOLVED")}
        for record in history.records:
            self._recall(record, transitions.get(record.delivery_key), now)
        self.observe(history.transitions, now)
        self._history_until_ms = history.until_ms
        for incident in self.incidents.values():  # receivers that the routes name since the last start
            if (notice := incident.notified) is not None:
                for receiver, route in self._receivers_of(notice).items():
                    if receiver not in incident.receivers:
                        incident.receivers[receiver] = route
                        self._owe(notice, receiver, route, now)

    def _recall(self, record: Record, row: Transition | None, now: Now) -> None:
        """Take a row of the log, and the row of the alerts table that it is about, if that can be read."""
        box = self.outboxes.get(record.receiver)  # None if it is not configured now; the log still has what is due
        if record.status == "acknowledged" and record.outcome in ("DELIVERED", "REFUSED"):
            self._acknowledged.add((record.delivery_key, record.receiver))
        elif record.receiver == EVERYBODY and record.outcome != "PENDING":
            incident = self.incidents.setdefault(record.incident_id, Incident())
            incident.withheld = record if incident.notified is None else None
        elif record.outcome != "PENDING":
            if box is not None:
                box.recall(record, now)
        elif row is not None:
            if box is not None:
                box.owe(row.notice, record.route or "", now.pace_of(record.at_ms))
            incident = self.incidents.setdefault(record.incident_id, Incident())
            incident.newest, incident.withheld = row, None
            incident.receivers.setdefault(record.receiver, record.route or "")
            self.own_alerts.note(row)
            if row.state == "RESOLVED":
                self._close(row.notice)
            else:
                incident.notified = row.notice
                self._place(row.notice)

    def observe(self, transitions: Iterable[Transition], now: Now) -> None:
        """Take rows of the alerts table, new or repeated, in any order.

        Of incidents that were over before the first relay, and not notified, only the end is taken.
        """
        ordered = sorted(transitions, key=lambda row: (row.incident_id, row.position))
        new: list[Transition] = []
        for incident_id, group in groupby(ordered, key=lambda row: row.incident_id):
            rows = list(group)
            is_over = rows[-1].state == "RESOLVED" and rows[-1].at_ms <= self._history_until_ms
            if is_over and not self.incidents.get(incident_id, Incident()).is_decided():
                rows = rows[-1:]
            if incident_id not in self.completed and not self._was_silent_throughout(incident_id, rows, now):
                new += rows
        for transition in sorted(new, key=lambda row: row.chronology):
            self._take(transition, now)

    def acknowledge(self, acknowledgements: Iterable[Acknowledgement], now: Now) -> None:
        """Forward each acknowledgement once to the receivers that support it, as soon as they know the incident."""
        for given in acknowledgements:
            if given.incident_id not in self.completed:
                self._acknowledgements.setdefault(given.incident_id, {})[given.at_ms] = given
                if (incident := self.incidents.get(given.incident_id)) is not None:
                    self._forward_acknowledgements(given.incident_id, incident, now)

    def advance(self, now: Now, *, is_ending: bool = False) -> None:
        """Decide what time changes: silences, waits, the relay's own alerts, late ends.

        A relay that ends notifies what only waits for time to pass.
        """
        self._is_ending |= is_ending
        if self.silences.has_changed(now.wall_ms):
            for incident in [*self._waiting_for("silence"), *self._waiting_for("limit")]:
                self._consider(incident, now)
        due = [
            effect
            for effect in self._waiting_for("cause")
            if effect.unsure_since_ms and not self._may_wait(effect, now)
        ]
        due += [one for one in self._changing.values() if self._is_ending or now.pace_ms >= one.settles_at_ms()]
        for incident in due:
            self._consider(incident, now)
        for row in self.own_alerts.rows(self._count_limited(), self.outboxes, now):
            self.own_rows.append(row)
            self._take(read_transition(row), now)
        for box in self.outboxes.values():
            self.log(*box.give_up(now))

    def log(self, *records: Record) -> None:
        self.records += records
        self.decided += len(records)

    def withheld(self) -> Iterator[tuple[Notice, Record]]:
        """Yield the incidents whose newest row is not notified, with the rows of the log that say why."""
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
        from_ms = first.at_ms if incident.withheld is None else max(first.at_ms, incident.withheld.at_ms)
        life = Incident()
        for row in rows:
            life.follow(row)
        until_ms = rows[-1].at_ms if life.stopped_at_ms is None else life.stopped_at_ms
        silence = self.silences.pick_throughout(first.notice, from_ms, until_ms)
        if silence is None:
            return False
        self.log(record_of(rows[-1].notice, "SILENCED", now.wall_ms, reason=silence.silence_id))
        self._stop_waiting(incident_id, incident)
        self._close(rows[-1].notice)
        return True

    def _take(self, transition: Transition, now: Now) -> None:
        incident = self.incidents.setdefault(transition.incident_id, Incident())
        if incident.newest is not None and transition.position <= incident.newest.position:
            return
        incident.follow(transition)
        self.own_alerts.note(transition)
        if transition.state == "RESOLVED":
            self._end(incident, transition, now)
        else:
            self._consider(incident, now)

    def _consider(self, incident: Incident, now: Now) -> None:
        """Notify its newest row, or withhold it by the first rule that applies. Repeated when that may have changed."""
        row = incident.newest
        assert row is not None, "it has a row"  # noqa: S101  # _take set it
        notice = row.notice
        self._stop_waiting(notice.incident_id, incident)
        if row.state != "FIRING" or not incident.is_news(notice):
            self._forget_change(incident, notice)
            return
        receivers = self._receivers_of(notice)
        # Rule 1. An inhibited alert waits under its cause, as long as a person knows of the cause.
        if row.inhibited_by is not None and self._is_explained(incident, receivers, row.inhibited_by, now):
            if incident.notified is None:
                self._withhold(incident, notice, "INHIBITED", row.inhibited_by, now, ("cause", row.inhibited_by))
            return
        # Rule 2. An alert that no route selects is recorded; alerts that it inhibits no longer wait for it.
        if incident.notified is None and not receivers:
            self._withhold(incident, notice, "NO_ROUTE", NO_ROUTE, now)
            self._free_effects(notice.incident_id, now)
            return
        incident.fired_at_ms = row.at_ms if incident.fired_at_ms is None else incident.fired_at_ms
        incident.last_firing = notice
        # Rule 3. A silenced or muted alert is considered again when the silence ends.
        silence = self.silences.pick(notice, now.wall_ms)
        if silence is not None:
            self._withhold(incident, notice, "SILENCED", silence.silence_id, now, SILENCED)
        # Rule 4. A notified alert is notified again, once a change of its queues alone has settled.
        elif incident.notified is not None or notice.kind in RELAY_KINDS:
            if incident.notified is None or self._has_settled(incident, incident.notified, notice, now.pace_ms):
                self._notify(incident, notice, now)
        # Rule 5. At most `limit` alerts of a kind and cluster are notified at a time; the earliest come first.
        elif self._has_room(notice):
            self._notify(incident, notice, now)
        else:
            scope = ("limit", notice.cluster, notice.kind)
            self._withhold(incident, notice, "LIMITED", self._limit_reason, now, scope)

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
            self._forget_change(incident, notice)
            return True
        queues, since_ms, _ = incident.changing or (None, pace_ms, pace_ms)
        if queues != notice.queues:
            incident.changing = (notice.queues, since_ms, pace_ms)
            self._changing[notice.incident_id] = incident
        if not self._is_ending and pace_ms < incident.settles_at_ms():
            return False
        self._forget_change(incident, notice)
        incident.changes += 1
        return True

    def _forget_change(self, incident: Incident, notice: Notice) -> None:
        incident.changing = None
        self._changing.pop(notice.incident_id, None)

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
        self._stop_waiting(end.incident_id, incident)
        if incident.notified is None and incident.withheld is not None and incident.withheld.outcome == "SILENCED":
            self._notify_if_silence_left_a_gap(incident, incident.withheld, end, now)
        if incident.notified is not None:
            for receiver, route in incident.receivers.items():
                self._owe(end.notice, receiver, route, now)
        elif incident.withheld is not None:
            self.log(record_of(end.notice, incident.withheld.outcome, now.wall_ms, reason=incident.withheld.reason))
        self._close(end.notice)
        if not incident.is_decided():
            self._free_effects(end.incident_id, now, is_over=True)
        self._admit(end.notice, now)

    def _notify_if_silence_left_a_gap(self, incident: Incident, withheld: Record, end: Transition, now: Now) -> None:
        """Notify an incident that continued to fire after its silence ended, between two polls."""
        if incident.last_firing is None or incident.fired_at_ms is None:
            return
        from_ms = max(withheld.at_ms, incident.fired_at_ms)
        until_ms = end.at_ms if incident.stopped_at_ms is None else incident.stopped_at_ms
        if from_ms >= until_ms or self.silences.pick_throughout(end.notice, from_ms, until_ms):
            return
        if self._has_room(end.notice):
            self._notify(incident, incident.last_firing, now)
        else:
            incident.withheld = record_of(end.notice, "LIMITED", now.wall_ms, reason=self._limit_reason)

    def _close(self, end: Notice) -> None:
        """Nothing more is decided about this incident."""
        self.incidents.pop(end.incident_id, None)
        self._changing.pop(end.incident_id, None)
        self._acknowledgements.pop(end.incident_id, None)
        self._places.get((end.cluster, end.kind), set()).discard(end.incident_id)
        self.completed[end.incident_id] = None
        while len(self.completed) > MOST_COMPLETED:
            del self.completed[next(iter(self.completed))]

    def _free_effects(self, cause_id: str, now: Now, *, is_over: bool = False) -> None:
        """Consider the effects of a cause that no person knows of."""
        effects = [*self._waiting.get(("cause", cause_id), {}).values()]
        if is_over and effects:
            self._unknown_causes.add(cause_id)
        for effect in effects:
            self._consider(effect, now)

    def _wait(self, incident: Incident, notice: Notice, what: tuple[str, ...]) -> None:
        incident.waits_for = what
        self._waiting.setdefault(what, {})[notice.incident_id] = incident

    def _stop_waiting(self, incident_id: str, incident: Incident) -> None:
        what, incident.waits_for = incident.waits_for, None
        if what is not None:
            waiting = self._waiting[what]
            del waiting[incident_id]
            if not waiting:
                del self._waiting[what]

    def _waiting_for(self, what: str) -> Iterator[Incident]:
        for (kind, *_), waiting in self._waiting.items():
            if kind == what:
                yield from waiting.values()

    def _place(self, notice: Notice) -> None:
        """Count a notified alert under the limit, even beyond it; it keeps its place until it resolves."""
        self._places.setdefault((notice.cluster, notice.kind), set()).add(notice.incident_id)

    def _has_room(self, notice: Notice) -> bool:
        return len(self._places.get((notice.cluster, notice.kind), ())) < self._limit

    def _admit(self, end: Notice, now: Now) -> None:
        """Notify as many waiting alerts of this kind and cluster as the limit has room for."""
        if not self._has_room(end):
            return
        notices = {notice.incident_id: notice for notice in self._limited_notices(end.cluster, end.kind)}
        queue = [
            Waiting(self.incidents[name].fired_at_ms or 0, rank_of(notice.severity), name)
            for name, notice in notices.items()
        ]
        for name in pick_notified(len(self._places.get((end.cluster, end.kind), ())), queue, self._limit):
            incident = self.incidents[name]
            self._stop_waiting(name, incident)
            self._notify(incident, notices[name], now)

    def _limited_notices(self, cluster: str, kind: str) -> list[Notice]:
        waiting = self._waiting.get(("limit", cluster, kind), {})
        return [one.newest.notice for one in waiting.values() if one.newest is not None]

    def _count_limited(self) -> Iterator[SelfAlert]:
        for what in self._waiting:
            if what[0] == "limit":
                _, cluster, kind = what
                notices = self._limited_notices(cluster, kind)
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
                    box.owe(notice, "acknowledgement", now.pace_ms)

    def _owe(self, notice: Notice, receiver: str, route: str, now: Now) -> None:
        """Record and queue a notification; recorded too for a receiver that is not configured now."""
        self.log(record_of(notice, "PENDING", now.wall_ms, receiver=receiver, route=route))
        if (box := self.outboxes.get(receiver)) is not None:
            box.owe(notice, route, now.pace_ms, self.decided)

    def _withhold(
        self,
        incident: Incident,
        notice: Notice,
        outcome: Outcome,
        reason: str,
        now: Now,
        waits_for: tuple[str, ...] | None = None,
    ) -> None:
        """Record why the notice is not notified, unless that is recorded; it may wait for something."""
        if waits_for is not None:
            self._wait(incident, notice, waits_for)
        withheld = incident.withheld
        if withheld is None or (withheld.outcome, withheld.reason) != (outcome, reason):
            incident.withheld = record_of(notice, outcome, now.wall_ms, reason=reason)
            self.log(incident.withheld)
