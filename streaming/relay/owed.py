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

from conf.oncall import CANARY, OnCall
from streaming.relay.notice import EVERYBODY, Notice, Now, Outcome, read_notice, record_of
from streaming.relay.outbox import Outbox
from streaming.relay.own_alerts import RelayAlerts, alerts_limited
from streaming.relay.tables import MOST_COMPLETED, DeliveryLog, History
from streaming.self_monitoring.self_alerts import SelfAlert
from streaming.text.times import to_ms
from streaming.warehouse.readable_rows import Row
from udfs.alerts.firing_limit import ALERTS_LIMITED, rank_of
from udfs.alerts.routing import QUIET, Route, pick_receivers, pick_watchdog_receivers
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.alerts.self_kinds import DELIVERY_FAILED, RELAY_KINDS
from udfs.alerts.silence import Quiet, Silence, pick_silence, pick_silence_throughout
from udfs.alerts.static_labels import LabelRules, pick_static_labels

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

    newest: Notice | None = None
    fired_at_ms: int | None = None
    last_firing: Notice | None = None
    stopped_at_ms: int | None = None
    notified: Notice | None = None
    receivers: dict[str, str] = field(default_factory=dict)
    withheld: Row | None = None
    unsure_since_ms: int | None = None
    changing: tuple[tuple[str, ...], int, int] | None = None
    changes: int = 0

    def follow(self, row: Notice) -> bool:
        """Take the incident's next row; return False for one that it has."""
        if self.newest is not None and row.position <= self.newest.position:
            return False
        self.newest = row
        if row.state == "FIRING":
            self.stopped_at_ms = None
            if row.inhibited_by is None:
                self.fire(row)
        elif row.state == "RECOVERING" and self.stopped_at_ms is None:
            self.stopped_at_ms = row.changed_at_ms
        return True

    def fire(self, row: Notice) -> None:
        """Note that it fires, and no other incident explains it."""
        self.fired_at_ms = row.changed_at_ms if self.fired_at_ms is None else self.fired_at_ms
        self.last_firing = row

    def is_decided(self) -> bool:
        """Return whether it is notified, or the reason why not is recorded."""
        return self.notified is not None or self.withheld is not None

    def is_known(self) -> bool:
        """Return whether a person knows of it or has silenced it: not if only the log has it, or no route matches."""
        if self.notified is not None:
            return any(route != QUIET for route in self.receivers.values())
        return self.withheld is not None and self.withheld["outcome"] != "NO_ROUTE"

    def is_news(self, row: Notice) -> bool:
        """Return whether the row differs from the notified one."""
        return self.notified is None or row.content() != self.notified.content()


class Owed:
    """Give it rows, silences and acknowledgements; it fills the outboxes and the log."""

    def __init__(
        self,
        routes: Sequence[Route],
        outboxes: Mapping[str, Outbox],
        settings: OnCall,
        log: DeliveryLog,
        mutes: Sequence[Quiet] = (),
        lost_after_ms: int | None = None,
        labels: LabelRules = (),
        language: str = "en",
    ) -> None:
        """See RelayAlerts for `lost_after_ms` and `language`."""
        self.outboxes, self.log = outboxes, log
        self.incidents: dict[str, Incident] = {}
        self.completed: dict[str, bool] = {}
        """Incidents that are over → whether a person could have known of them."""
        self.own_alerts = RelayAlerts(round(1000 * settings.resend_seconds), lost_after_ms, language)
        self.watchers = pick_watchdog_receivers(routes)
        self._routes, self._labels, self._limit = routes, labels, settings.max_firing_per_kind
        self._limit_reason = f"the limit of {self._limit} alerts of this kind and cluster is reached"
        self._quiet_receivers = [name for name, box in outboxes.items() if box.traits.is_quiet]
        self._mutes = self._silences = tuple(mutes)
        self._active: list[Silence] = []
        self._waiting: dict[str, tuple[Incident, Notice]] = {}
        """The incidents that are considered again, with their newest rows."""
        self._limited: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        """Scope → those of them that the limit holds back."""
        self._places: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        """Scope → the notified incidents. They keep their places, even beyond the limit, until they resolve."""
        self._again_at_ms = math.inf
        self._acknowledgements: dict[str, list[Row]] = {}
        self._acknowledged: set[tuple[str, str]] = set()
        self._is_ending = False
        self._history_until_ms = 0

    def load(self, history: History, now: Now) -> None:
        """Fill an empty cache from the tables. Notified incidents come first and keep their place under the limit."""
        self.completed = dict.fromkeys(history.completed, True)
        rows = {row.key: row for row in history.notices if row.state in ("FIRING", "RESOLVED")}
        for record in history.records:
            self._recall(record, rows.get(record["delivery_key"]), now)
        self.observe(history.notices, now)
        self._history_until_ms = history.until_ms
        for incident in self.incidents.values():  # receivers that the routes name since the last start
            if (notice := incident.notified) is not None:
                new = {name: at for name, at in self._receivers_of(notice).items() if name not in incident.receivers}
                incident.receivers |= new
                self._owe(notice, new, now)

    def _recall(self, record: Row, row: Notice | None, now: Now) -> None:
        """Take a row of the log, and the row of the alerts table that it is about, if that can be read."""
        box = self.outboxes.get(record["receiver"])  # None if it is not configured now; the log still has what is due
        if record["status"] == "acknowledged" and record["outcome"] in ("DELIVERED", "REFUSED"):
            self._acknowledged.add((record["delivery_key"], record["receiver"]))
        elif record["receiver"] == EVERYBODY and record["outcome"] != "PENDING":
            incident = self.incidents.setdefault(record["incident_id"], Incident())
            incident.withheld = record if incident.notified is None else None
        elif record["outcome"] != "PENDING":
            if box is not None and row is not None:
                box.recall(row, record, now)
        elif row is not None:
            row = replace(row, static_labels=record["static_labels"])
            if box is not None:
                box.owe(row, record["route"] or "", now.pace_of(record["delivered_at"]))
            incident = self.incidents.setdefault(record["incident_id"], Incident())
            incident.newest, incident.withheld = row, None
            incident.receivers.setdefault(record["receiver"], record["route"] or "")
            self.own_alerts.note(row)
            if row.state == "RESOLVED":
                self._close(row)
            else:
                incident.notified = row
                self._places[row.scope].add(row.incident_id)

    def observe(self, rows: Iterable[Notice], now: Now) -> None:
        """Take rows of the alerts table, new or repeated, in any order.

        An incident that fired and ended, and was not notified, is only recorded if silences covered all the time in
        which it fired; one that was over before the first relay not even that.
        """
        new: list[Notice] = []
        fired: set[str] = set()
        over: dict[str, str | None] = {}
        """Incidents that are not notified any more → the silence that covered them."""
        for given in sorted(rows, key=lambda row: row.position):
            incident_id = given.incident_id
            if incident_id in self.completed:
                continue
            incident = self.incidents.setdefault(incident_id, Incident())
            row = self.label(given, incident.notified)
            if not incident.follow(row):
                continue
            new.append(row)
            if row.state == "FIRING" and row.inhibited_by is None:
                fired.add(incident_id)
            elif row.state == "RESOLVED" and incident.notified is None:
                if row.changed_at_ms <= self._history_until_ms and not incident.is_decided():
                    over[incident_id] = None
                elif incident_id in fired and (silence_id := self._silence_throughout(incident, row)) is not None:
                    over[incident_id] = silence_id
        # An alert's older incident ends before the newer one begins.
        for row in sorted(new, key=lambda row: (row.changed_at_ms, row.started_at_ms, row.position, row.incident_id)):
            if (found := self.incidents.get(row.incident_id)) is None:
                continue  # a row after the end
            self.own_alerts.note(row)
            if row.state == "RESOLVED":
                self._end(found, row, over.get(row.incident_id), now)
            elif row.incident_id not in over:
                self._consider(found, row, now)
        self._consider_again(now, has_changed=bool(new))

    def label(self, row: Notice, notified: Notice | None = None) -> Notice:
        """Return the row with its static labels. A notified incident keeps those that its receivers have."""
        static = pick_static_labels(self._labels, row.match_labels()) if notified is None else notified.static_labels
        return replace(row, static_labels=static)

    def silence(self, silences: Iterable[Silence]) -> None:
        """Take all silences, active or not."""
        self._silences = (*self._mutes, *silences)

    def acknowledge(self, acknowledgements: Iterable[Row], now: Now) -> None:
        """Forward each acknowledgement once to the receivers that support it, as soon as they know the incident."""
        self._acknowledgements = {}
        for given in acknowledgements:
            self._acknowledgements.setdefault(given["incident_id"], []).append(given)
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
            self.log.alerts.append(row)
            self.observe([read_notice(row)], now)
        for box in self.outboxes.values():
            self.log.add(*box.give_up(now))

    def _silences_of(self, notice: Notice) -> tuple[Quiet, ...]:
        """Return what may silence the notice. The canary is never silenced: its absence pages."""
        return () if notice.cluster == CANARY_CLUSTER else self._silences

    def _silence_throughout(self, incident: Incident, end: Notice) -> str | None:
        """Return what silenced an incident that is over, if all the time in which it fired was covered."""
        firing, withheld = incident.last_firing, incident.withheld
        if incident.fired_at_ms is None or firing is None:
            return None
        from_ms = incident.fired_at_ms if withheld is None else max(incident.fired_at_ms, withheld["delivered_at"])
        until_ms = end.changed_at_ms if incident.stopped_at_ms is None else incident.stopped_at_ms
        if withheld is not None and withheld["outcome"] == "SILENCED" and from_ms >= until_ms:
            return withheld["reason"] or ""
        silence = pick_silence_throughout(self._silences_of(firing), firing.match_labels(), from_ms, until_ms)
        return None if silence is None else silence.silence_id

    def _consider_again(self, now: Now, *, has_changed: bool) -> None:
        """Consider what waits again if something has changed: the earliest first, the worst of one moment."""
        active = [silence for quiet in self._silences if (silence := quiet.at(now.wall_ms)) is not None]
        are_silences_new, self._active, decided = active != self._active, active, -1
        while (has_changed or are_silences_new) and decided != self.log.decided:
            decided, self._again_at_ms = self.log.decided, math.inf
            waiting, self._waiting = self._waiting, {}
            self._limited.clear()
            for incident, row in sorted(waiting.values(), key=_turn):
                outcome = incident.withheld and incident.withheld["outcome"]
                is_limited = outcome == "LIMITED" and not self._has_room(row)
                if not are_silences_new and (is_limited or outcome == "SILENCED"):
                    self._wait(incident, row)
                else:
                    self._consider(incident, row, now)
            are_silences_new, has_changed = False, True

    def _consider(self, incident: Incident, row: Notice, now: Now) -> None:
        """Notify its newest row, or withhold it by the first rule that applies. Repeated when that may have changed."""
        self._stop_waiting(row)
        if row.state != "FIRING" or not incident.is_news(row):
            incident.changing = None
            return
        # Rule 1. An inhibited alert waits under its cause, as long as a person knows of the cause.
        if row.inhibited_by is not None and self._is_explained(incident, row, row.inhibited_by, now):
            if incident.notified is None:
                self._withhold(incident, row, "INHIBITED", row.inhibited_by, now)
            return
        # Rule 2. An alert that no route selects is recorded; alerts that it inhibits no longer wait for it.
        if incident.notified is None and not self._receivers_of(row):
            self._withhold(incident, row, "NO_ROUTE", "no route matches", now)
            return
        incident.fire(row)
        # Rule 3. A silenced or muted alert is considered again when the silence ends.
        silence = pick_silence(self._silences_of(row), row.match_labels(), now.wall_ms)
        if silence is not None:
            self._withhold(incident, row, "SILENCED", silence.silence_id, now)
        # Rule 4. A notified alert is notified again, once a change of its queues alone has settled.
        elif incident.notified is not None:
            if self._has_settled(incident, incident.notified, row, now.pace_ms):
                self._notify(incident, row, now)
        # Rule 5. At most `limit` alerts of a kind and cluster are notified at a time; the earliest come first.
        elif row.kind in RELAY_KINDS or (self._has_room(row) and not self._limited.get(row.scope)):
            self._notify(incident, row, now)
        else:
            self._withhold(incident, row, "LIMITED", self._limit_reason, now)

    def _is_explained(self, incident: Incident, row: Notice, cause_id: str, now: Now) -> bool:
        """Return whether the cause represents an effect.

        Not if no route selects the cause, or only the log has it and not the effect. A cause that is not read yet is
        believed; one that has not fired is believed for CAUSE_WAIT_MS, or until it ends.
        """
        cause = self.incidents.get(cause_id)
        if cause is None:
            return self.completed.get(cause_id, True)
        if cause.is_known() or all(route == QUIET for route in self._receivers_of(row).values()):
            incident.unsure_since_ms = None
            return True
        if cause.is_decided():
            return False
        if incident.unsure_since_ms is None:
            incident.unsure_since_ms = now.pace_ms
        return not self._is_ending and self._waits_until(incident.unsure_since_ms + CAUSE_WAIT_MS, now.pace_ms)

    def _has_settled(self, incident: Incident, notified: Notice, row: Notice, pace_ms: int) -> bool:
        """Return whether a change is notified now: another cause or severity at once, other queues once they settle."""
        if row.content(with_queues=False) == notified.content(with_queues=False):
            queues, since_ms, changed_ms = incident.changing or (row.queues, pace_ms, pace_ms)
            changed_ms = changed_ms if queues == row.queues else pace_ms
            incident.changing = (row.queues, since_ms, changed_ms)
            settle_ms = min(LONGEST_SETTLE_MS, SETTLE_MS << min(incident.changes, 10))
            settles_at_ms = min(changed_ms + settle_ms, since_ms + SETTLE_PATIENCE * settle_ms)
            if not self._is_ending and self._waits_until(settles_at_ms, pace_ms):
                self._wait(incident, row)
                return False
            incident.changes += 1
        incident.changing = None
        return True

    def _waits_until(self, at_ms: int, pace_ms: int) -> bool:
        """Return whether that is still to come; what waits is then considered again."""
        if pace_ms < at_ms:
            self._again_at_ms = min(self._again_at_ms, at_ms)
        return pace_ms < at_ms

    def _notify(self, incident: Incident, row: Notice, now: Now) -> None:
        incident.notified, incident.withheld = row, None
        self._places[row.scope].add(row.incident_id)
        incident.receivers = {**self._receivers_of(row), **incident.receivers}
        self._owe(row, incident.receivers, now)
        self._forward_acknowledgements(incident, row, now)

    def _end(self, incident: Incident, end: Notice, silence_id: str | None, now: Now) -> None:
        """Resolve a notified incident at its receivers; record why another one is not notified."""
        withheld, firing = incident.withheld, incident.last_firing
        if silence_id is not None:
            withheld = record_of(end, "SILENCED", now.wall_ms, reason=silence_id)
        elif (
            incident.notified is None
            and withheld is not None
            and withheld["outcome"] == "SILENCED"
            and firing is not None
            and self._silence_throughout(incident, end) is None
        ):  # it continued to fire after its silence ended, between two polls
            if self._has_room(end):
                self._notify(incident, firing, now)
            else:
                withheld = record_of(end, "LIMITED", now.wall_ms, reason=self._limit_reason)
        if incident.notified is not None:
            self._owe(end, incident.receivers, now)
        elif withheld is not None:
            self.log.add(record_of(end, withheld["outcome"], now.wall_ms, reason=withheld["reason"]))
        self._close(end, was_decided=incident.notified is not None or withheld is not None)

    def _close(self, end: Notice, *, was_decided: bool = True) -> None:
        """Nothing more is decided about this incident."""
        self._stop_waiting(end)
        self.incidents.pop(end.incident_id, None)
        self._places[end.scope].discard(end.incident_id)
        self.completed[end.incident_id] = was_decided
        while len(self.completed) > MOST_COMPLETED:
            del self.completed[next(iter(self.completed))]

    def _wait(self, incident: Incident, row: Notice) -> None:
        self._waiting[row.incident_id] = incident, row
        if incident.withheld is not None and incident.withheld["outcome"] == "LIMITED":
            self._limited[row.scope].add(row.incident_id)

    def _stop_waiting(self, row: Notice) -> None:
        self._waiting.pop(row.incident_id, None)
        self._limited[row.scope].discard(row.incident_id)

    def _has_room(self, row: Notice) -> bool:
        return len(self._places[row.scope]) < self._limit

    def _limited_rows(self, scope: tuple[str, str]) -> list[Notice]:
        return [self._waiting[incident_id][1] for incident_id in self._limited.get(scope, ())]

    def _count_limited(self) -> Iterator[SelfAlert]:
        for scope in [*self._limited]:
            if waiting := self._limited_rows(scope):
                worst = min((row.severity for row in waiting), key=rank_of)
                yield alerts_limited(*scope, len(waiting), self._limit, worst)

    def _receivers_of(self, notice: Notice) -> dict[str, str]:
        """Return receiver → route. The canary and the relay's own alerts have routes that are not configured."""
        if notice.cluster == CANARY_CLUSTER:
            return {CANARY: CANARY} if CANARY in self.outboxes else {}
        if notice.kind == DELIVERY_FAILED:
            failing = {CANARY, notice.labels.get("receiver")}
            return {name: DELIVERY_FAILED for name in self.outboxes if name not in failing}
        if notice.kind == ALERTS_LIMITED:
            limited = self._limited_rows((notice.cluster, notice.labels.get("limited_kind", "")))
            return {name: ALERTS_LIMITED for row in limited for name in self._receivers_of(row)}
        picked = pick_receivers(self._routes, notice.match_labels(), self._quiet_receivers)
        return {name: route for name, route in picked.items() if name in self.outboxes}

    def _forward_acknowledgements(self, incident: Incident, notified: Notice, now: Now) -> None:
        for given in self._acknowledgements.pop(notified.incident_id, ()):
            at_ms, reason = to_ms(given["acknowledged_at"]), f"acknowledged by {given['acknowledged_by']}"
            notice = replace(notified, status="acknowledged", reason=reason, acknowledged_at_ms=at_ms)
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
                box.owe(notice, route, now.pace_ms)

    def _withhold(self, incident: Incident, row: Notice, outcome: Outcome, reason: str, now: Now) -> None:
        """Record why the row is not notified, unless that is recorded. It waits, if a route matches."""
        withheld = incident.withheld
        if withheld is None or (withheld["outcome"], withheld["reason"]) != (outcome, reason):
            incident.withheld = record_of(row, outcome, now.wall_ms, reason=reason)
            self.log.add(incident.withheld)
        if outcome != "NO_ROUTE":
            self._wait(incident, row)


def _turn(waiting: tuple[Incident, Notice]) -> tuple[int, int, str]:
    incident, row = waiting
    return incident.fired_at_ms or 0, rank_of(row.severity), row.incident_id
