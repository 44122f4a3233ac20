"""What is owed: which alerts go to which receivers, and the reasons of the others. Nothing is sent here.

The state is a cache of four tables: open alerts, silences, acknowledgements and alert_deliveries. `load` fills it from
them; each decision is a row of alert_deliveries, and each alert about the relay a row of the alerts table.

Notified are the first FIRING row that no rule holds back; then each FIRING row with another cause or severity, or other
queues that have settled; then the RESOLVED row. Once notified, an incident is resolved at its receivers even if it is
inhibited or silenced later; a silence hides only its changes.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from conf.oncall import CANARY, OnCall
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
from streaming.relay.tables import MOST_COMPLETED, DeliveryLog, History
from streaming.self_monitoring.self_alerts import SelfAlert
from udfs.alerts.firing_limit import ALERTS_LIMITED, rank_of
from udfs.alerts.routing import QUIET, Route, pick_receivers, pick_watchdog_receivers
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.alerts.self_kinds import DELIVERY_FAILED, RELAY_KINDS
from udfs.alerts.silence import Quiet

CAUSE_WAIT_MS = 120_000
"""Time that an inhibited alert waits for a cause that has not fired; most causes need less."""

SETTLE_MS, LONGEST_SETTLE_MS, SETTLE_PATIENCE = 30_000, 900_000, 4
"""A change of the queues alone must last for half a minute, doubled with each notified change; at most four times that,
if the list never settles.
"""


@dataclass
class Incident:
    """One incident that is not over.

    fired_at_ms      when it first fired without an inhibitor
    last_firing      the newest FIRING row without an inhibitor
    stopped_at_ms    the first RECOVERING row after the last FIRING one
    notified         what its receivers were notified of last
    receivers        receiver → the route that selected it
    withheld         the row of the log that says why `newest` is not notified
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
    unsure_since_ms: int | None = None
    changing: tuple[tuple[str, ...], int, int] | None = None
    changes: int = 0

    def follow(self, row: Transition) -> bool:
        """Take the incident's next row; return False for one that it has."""
        if self.newest is not None and row.position <= self.newest.position:
            return False
        self.newest = row
        if row.state == "FIRING":
            self.stopped_at_ms = None
            if row.inhibited_by is None:
                self.fire(row.notice)
        elif row.state == "RECOVERING" and self.stopped_at_ms is None:
            self.stopped_at_ms = row.at_ms
        return True

    def fire(self, notice: Notice) -> None:
        """Note that it fires, and no other incident explains it."""
        self.fired_at_ms = notice.changed_at_ms if self.fired_at_ms is None else self.fired_at_ms
        self.last_firing = notice

    def is_decided(self) -> bool:
        """Return whether it has fired: it is notified, or the reason why not is recorded."""
        return self.notified is not None or self.withheld is not None

    def is_known(self) -> bool:
        """Return whether a person knows of it or has silenced it: not if only the log has it, or no route matches."""
        if self.notified is not None:
            return any(route != QUIET for route in self.receivers.values())
        return self.withheld is not None and self.withheld.outcome != "NO_ROUTE"

    @property
    def row(self) -> Transition:
        """The newest row of an incident that waits."""
        assert self.newest is not None, "it has a row"  # noqa: S101  # `follow` set it
        return self.newest

    def turn(self) -> tuple[int, int, str]:
        """Return the place among those that wait: the earliest first, the worst of one moment."""
        return self.fired_at_ms or 0, rank_of(self.row.notice.severity), self.row.incident_id

    def is_news(self, notice: Notice) -> bool:
        """Return whether the notice differs from the notified one."""
        return self.notified is None or notice.content() != self.notified.content()


class Owed:
    """Give it rows, silences and acknowledgements; it fills the outboxes and the log.

    A delivery has the number of its record.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        outboxes: Mapping[str, Outbox],
        settings: OnCall,
        log: DeliveryLog,
        mutes: Sequence[Quiet] = (),
        lost_after_ms: int | None = None,
    ) -> None:
        """See RelayAlerts for `lost_after_ms`."""
        self.outboxes, self.log = outboxes, log
        self.incidents: dict[str, Incident] = {}
        self.completed: dict[str, bool] = {}
        """Incidents that are over → whether a person could have known of them."""
        self.silences = Silences(mutes)
        self.own_alerts = RelayAlerts(round(1000 * settings.resend_seconds), lost_after_ms)
        self.watchers = pick_watchdog_receivers(routes)
        self._routes, self._limit = routes, settings.max_firing_per_kind
        self._limit_reason = f"the limit of {self._limit} alerts of this kind and cluster is reached"
        self._quiet = [name for name, box in outboxes.items() if box.traits.is_quiet]
        self._waiting: dict[str, Incident] = {}
        self._limited: defaultdict[tuple[str, str], dict[str, Incident]] = defaultdict(dict)
        self._again_at_ms = math.inf
        self._places: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._acknowledgements: dict[str, list[Acknowledgement]] = {}
        self._acknowledged: set[tuple[str, str]] = set()
        self._is_ending = False
        self._history_until_ms = 0

    def load(self, history: History, now: Now) -> None:
        """Fill an empty cache from the tables. Notified incidents come first and keep their place under the limit."""
        self.completed = dict.fromkeys(history.completed, True)
        transitions = {row.notice.key: row for row in history.transitions if row.state in ("FIRING", "RESOLVED")}
        for record in history.records:
            self._recall(record, transitions.get(record.delivery_key), now)
        self.observe(history.transitions, now)
        self._history_until_ms = history.until_ms
        for incident in self.incidents.values():  # receivers that the routes name since the last start
            if (notice := incident.notified) is not None:
                new = {name: at for name, at in self._receivers_of(notice).items() if name not in incident.receivers}
                incident.receivers |= new
                self._owe(notice, new, now)

    def _recall(self, record: Record, row: Transition | None, now: Now) -> None:
        """Take a row of the log, and the row of the alerts table that it is about, if that can be read."""
        box = self.outboxes.get(record.receiver)  # None if it is not configured now; the log still has what is due
        if record.status == "acknowledged" and record.outcome in ("DELIVERED", "REFUSED"):
            self._acknowledged.add((record.delivery_key, record.receiver))
        elif record.receiver == EVERYBODY and record.outcome != "PENDING":
            incident = self.incidents.setdefault(record.incident_id, Incident())
            incident.withheld = record if incident.notified is None else None
        elif record.outcome != "PENDING":
            if box is not None and row is not None:
                box.recall(row.notice, record, now)
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
                self._places[_scope(row.notice)].add(row.incident_id)

    def observe(self, transitions: Iterable[Transition], now: Now) -> None:
        """Take rows of the alerts table, new or repeated, in any order.

        Of incidents that were over before the first relay, and not notified, only the end is taken. An incident that
        ends is only recorded if silences covered all the time in which it fired.
        """
        ordered = sorted(transitions, key=lambda row: (row.incident_id, row.position))
        new: list[Transition] = []
        for incident_id, group in groupby(ordered, key=lambda row: row.incident_id):
            if incident_id in self.completed:
                continue
            rows = list(group)
            incident = self.incidents.setdefault(incident_id, Incident())
            end = rows[-1] if rows[-1].state == "RESOLVED" and incident.notified is None else None
            if end is not None and end.at_ms <= self._history_until_ms and not incident.is_decided():
                rows = [end]
            life = replace(incident)
            fires = [life.follow(row) and row.state == "FIRING" and row.inhibited_by is None for row in rows]
            silence_id = self._silence_throughout(life, end.notice) if end is not None and any(fires) else None
            if end is not None and silence_id is not None:
                self.log.add(record_of(end.notice, "SILENCED", now.wall_ms, reason=silence_id))
                self.own_alerts.note(end)
                self._close(end.notice)
            else:
                new += rows
        for row in sorted(new, key=lambda row: row.chronology):
            known = self.incidents.get(row.incident_id)
            if known is not None and known.follow(row):
                self.own_alerts.note(row)
                if row.state == "RESOLVED":
                    self._end(known, row.notice, now)
                else:
                    self._consider(known, row, now)
        self._consider_again(now, has_changed=bool(new))

    def acknowledge(self, acknowledgements: Iterable[Acknowledgement], now: Now) -> None:
        """Forward each acknowledgement once to the receivers that support it, as soon as they know the incident."""
        self._acknowledgements = {}
        for given in acknowledgements:
            self._acknowledgements.setdefault(given.incident_id, []).append(given)
        for incident_id in [*self._acknowledgements]:
            if (incident := self.incidents.get(incident_id)) is not None and incident.notified is not None:
                self._forward_acknowledgements(incident, incident.notified, now)

    def advance(self, now: Now, *, is_ending: bool = False) -> None:
        """Decide what time changes: silences, waits, the relay's own alerts, late ends.

        A relay that ends notifies what only waits for time to pass.
        """
        self._is_ending |= is_ending
        self._consider_again(now, has_changed=is_ending or now.pace_ms >= self._again_at_ms)
        for row in self.own_alerts.rows(self._count_limited(), self.outboxes, now):
            self.log.add_alert(row)
            self.observe([read_transition(row)], now)
        for box in self.outboxes.values():
            self.log.add(*box.give_up(now))

    def withheld(self) -> Iterator[tuple[Notice, Record]]:
        """Yield the incidents whose newest row is not notified, with the rows of the log that say why."""
        for incident in self.incidents.values():
            if incident.withheld and incident.newest and incident.is_news(incident.newest.notice):
                yield incident.newest.notice, incident.withheld

    def _silence_throughout(self, life: Incident, end: Notice) -> str | None:
        """Return what silenced an incident that is over, if all the time in which it fired was covered."""
        if life.fired_at_ms is None or life.last_firing is None:
            return None
        withheld = life.withheld
        from_ms = life.fired_at_ms if withheld is None else max(life.fired_at_ms, withheld.at_ms)
        until_ms = end.changed_at_ms if life.stopped_at_ms is None else life.stopped_at_ms
        if withheld is not None and withheld.outcome == "SILENCED" and from_ms >= until_ms:
            return withheld.reason or ""
        silence = self.silences.pick_throughout(life.last_firing, from_ms, until_ms)
        return None if silence is None else silence.silence_id

    def _consider_again(self, now: Now, *, has_changed: bool) -> None:
        """Consider what waits again if something has changed: the earliest first, the worst of one moment."""
        are_silences_new, decided = self.silences.has_changed(now.wall_ms), -1
        while (has_changed or are_silences_new) and decided != self.log.decided:
            decided, self._again_at_ms = self.log.decided, math.inf
            waiting, self._waiting = self._waiting, {}
            self._limited.clear()
            for incident in sorted(waiting.values(), key=Incident.turn):
                row, outcome = incident.row, incident.withheld and incident.withheld.outcome
                is_limited = outcome == "LIMITED" and not self._has_room(row.notice)
                if not are_silences_new and (is_limited or outcome == "SILENCED"):
                    self._wait(incident, row.notice)
                else:
                    self._consider(incident, row, now)
            are_silences_new, has_changed = False, True

    def _consider(self, incident: Incident, row: Transition, now: Now) -> None:
        """Notify its newest row, or withhold it by the first rule that applies. Repeated when that may have changed."""
        notice = row.notice
        self._stop_waiting(notice)
        if row.state != "FIRING" or not incident.is_news(notice):
            incident.changing = None
            return
        # Rule 1. An inhibited alert waits under its cause, as long as a person knows of the cause.
        if row.inhibited_by is not None and self._is_explained(incident, notice, row.inhibited_by, now):
            if incident.notified is None:
                self._withhold(incident, notice, "INHIBITED", row.inhibited_by, now)
            return
        # Rule 2. An alert that no route selects is recorded; alerts that it inhibits no longer wait for it.
        if incident.notified is None and not self._receivers_of(notice):
            self._withhold(incident, notice, "NO_ROUTE", "no route matches", now)
            return
        incident.fire(notice)
        # Rule 3. A silenced or muted alert is considered again when the silence ends.
        silence = self.silences.pick(notice, now.wall_ms)
        if silence is not None:
            self._withhold(incident, notice, "SILENCED", silence.silence_id, now)
        # Rule 4. A notified alert is notified again, once a change of its queues alone has settled.
        elif incident.notified is not None:
            if self._has_settled(incident, incident.notified, notice, now.pace_ms):
                self._notify(incident, notice, now)
        # Rule 5. At most `limit` alerts of a kind and cluster are notified at a time; the earliest come first.
        elif notice.kind in RELAY_KINDS or (self._has_room(notice) and not self._limited.get(_scope(notice))):
            self._notify(incident, notice, now)
        else:
            self._withhold(incident, notice, "LIMITED", self._limit_reason, now)

    def _is_explained(self, incident: Incident, notice: Notice, cause_id: str, now: Now) -> bool:
        """Return whether the cause represents an effect.

        Not if no route selects the cause, or only the log has it and not the effect. A cause that is not read yet is
        believed; one that has not fired is believed for CAUSE_WAIT_MS, or until it ends.
        """
        cause = self.incidents.get(cause_id)
        if cause is None:
            return self.completed.get(cause_id, True)
        if cause.is_known() or all(route == QUIET for route in self._receivers_of(notice).values()):
            incident.unsure_since_ms = None
            return True
        if cause.is_decided():
            return False
        if incident.unsure_since_ms is None:
            incident.unsure_since_ms = now.pace_ms
        return not self._is_ending and self._waits_until(incident.unsure_since_ms + CAUSE_WAIT_MS, now.pace_ms)

    def _has_settled(self, incident: Incident, notified: Notice, notice: Notice, pace_ms: int) -> bool:
        """Return whether a change is notified now: another cause or severity at once, other queues once they settle."""
        if notice.content(with_queues=False) == notified.content(with_queues=False):
            queues, since_ms, changed_ms = incident.changing or (notice.queues, pace_ms, pace_ms)
            changed_ms = changed_ms if queues == notice.queues else pace_ms
            incident.changing = (notice.queues, since_ms, changed_ms)
            settle_ms = min(LONGEST_SETTLE_MS, SETTLE_MS << min(incident.changes, 10))
            settles_at_ms = min(changed_ms + settle_ms, since_ms + SETTLE_PATIENCE * settle_ms)
            if not self._is_ending and self._waits_until(settles_at_ms, pace_ms):
                self._wait(incident, notice)
                return False
            incident.changes += 1
        incident.changing = None
        return True

    def _waits_until(self, at_ms: int, pace_ms: int) -> bool:
        """Return whether that is still to come; what waits is then considered again."""
        if pace_ms < at_ms:
            self._again_at_ms = min(self._again_at_ms, at_ms)
        return pace_ms < at_ms

    def _notify(self, incident: Incident, notice: Notice, now: Now) -> None:
        incident.notified, incident.withheld = notice, None
        self._places[_scope(notice)].add(notice.incident_id)
        incident.receivers = {**self._receivers_of(notice), **incident.receivers}
        self._owe(notice, incident.receivers, now)
        self._forward_acknowledgements(incident, notice, now)

    def _end(self, incident: Incident, end: Notice, now: Now) -> None:
        withheld, firing = incident.withheld, incident.last_firing
        is_silenced = incident.notified is None and withheld is not None and withheld.outcome == "SILENCED"
        if is_silenced and firing is not None and self._silence_throughout(incident, end) is None:
            # It continued to fire after its silence ended, between two polls.
            if self._has_room(end):
                self._notify(incident, firing, now)
            else:
                incident.withheld = record_of(end, "LIMITED", now.wall_ms, reason=self._limit_reason)
        if incident.notified is not None:
            self._owe(end, incident.receivers, now)
        elif incident.withheld is not None:
            self.log.add(record_of(end, incident.withheld.outcome, now.wall_ms, reason=incident.withheld.reason))
        self._close(end, was_decided=incident.is_decided())

    def _close(self, end: Notice, *, was_decided: bool = True) -> None:
        """Nothing more is decided about this incident."""
        self._stop_waiting(end)
        self.incidents.pop(end.incident_id, None)
        self._places[_scope(end)].discard(end.incident_id)
        self.completed[end.incident_id] = was_decided
        while len(self.completed) > MOST_COMPLETED:
            del self.completed[next(iter(self.completed))]

    def _wait(self, incident: Incident, notice: Notice) -> None:
        self._waiting[notice.incident_id] = incident
        if incident.withheld is not None and incident.withheld.outcome == "LIMITED":
            self._limited[_scope(notice)][notice.incident_id] = incident

    def _stop_waiting(self, notice: Notice) -> None:
        self._waiting.pop(notice.incident_id, None)
        self._limited[_scope(notice)].pop(notice.incident_id, None)

    def _has_room(self, notice: Notice) -> bool:
        """Return whether the limit has room. A notified alert keeps its place, even beyond it, until it resolves."""
        return len(self._places[_scope(notice)]) < self._limit

    def _count_limited(self) -> Iterator[SelfAlert]:
        for (cluster, kind), waiting in self._limited.items():
            if waiting:
                worst = min((incident.row.notice.severity for incident in waiting.values()), key=rank_of)
                yield alerts_limited(cluster, kind, len(waiting), self._limit, worst)

    def _receivers_of(self, notice: Notice) -> dict[str, str]:
        """Return receiver → route. The canary and the relay's own alerts have routes that are not configured."""
        if notice.cluster == CANARY_CLUSTER:
            return {CANARY: CANARY} if CANARY in self.outboxes else {}
        if notice.kind == DELIVERY_FAILED:
            failing = {CANARY, notice.labels.get("receiver")}
            return {name: DELIVERY_FAILED for name in self.outboxes if name not in failing}
        if notice.kind == ALERTS_LIMITED:
            limited = self._limited[notice.cluster, notice.labels.get("limited_kind", "")].values()
            return {name: ALERTS_LIMITED for one in limited for name in self._receivers_of(one.row.notice)}
        picked = pick_receivers(self._routes, notice.match_labels(), self._quiet)
        return {name: route for name, route in picked.items() if name in self.outboxes}

    def _forward_acknowledgements(self, incident: Incident, notified: Notice, now: Now) -> None:
        for given in self._acknowledgements.pop(notified.incident_id, ()):
            reason = f"acknowledged by {given.acknowledged_by}"
            notice = replace(notified, status="acknowledged", reason=reason, acknowledged_at_ms=given.at_ms)
            for receiver in incident.receivers:
                box = self.outboxes.get(receiver)
                if box is not None and box.traits.can_acknowledge and (notice.key, receiver) not in self._acknowledged:
                    self._acknowledged.add((notice.key, receiver))
                    box.owe(notice, "acknowledgement", now.pace_ms)

    def _owe(self, notice: Notice, receivers: Mapping[str, str], now: Now) -> None:
        """Record and queue a notification; recorded too for a receiver that is not configured now."""
        for receiver, route in receivers.items():
            self.log.add(record_of(notice, "PENDING", now.wall_ms, receiver=receiver, route=route))
            if (box := self.outboxes.get(receiver)) is not None:
                box.owe(notice, route, now.pace_ms, self.log.decided)

    def _withhold(self, incident: Incident, notice: Notice, outcome: Outcome, reason: str, now: Now) -> None:
        """Record why the notice is not notified, unless that is recorded. It waits, if a route matches."""
        withheld = incident.withheld
        if withheld is None or (withheld.outcome, withheld.reason) != (outcome, reason):
            incident.withheld = record_of(notice, outcome, now.wall_ms, reason=reason)
            self.log.add(incident.withheld)
        if outcome != "NO_ROUTE":
            self._wait(incident, notice)


def _scope(notice: Notice) -> tuple[str, str]:
    """Return what the limit counts by."""
    return notice.cluster, notice.kind
