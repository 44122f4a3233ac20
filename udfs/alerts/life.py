"""The life of an alert: PENDING, FIRING, RECOVERING, RESOLVED, and UNKNOWN where data is missing.

    PENDING or UNKNOWN ─► FIRING ⇄ RECOVERING ─► RESOLVED        each step is one row, with the reason for it

A pure function of what was, what is found, and how well it was seen. Pending and calm time is what passed between two
evaluations that followed each other; a longer gap is the monitor's own absence, and counts for nothing. What gives no
data ends nothing. The states and their order are those of Prometheus' `for` and `keep_firing_for`, and of Grafana's
Recovering; unlike theirs all of it is in the state of the query, and so survives any restart.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from udfs.alerts.alert import Finding, Incident, Text, Transition, brokers_of, opened, with_finding
from udfs.alerts.phrase import phrase
from udfs.alerts.rules import KindRules, Rules

SLOTS = 21

MOST_COMINGS = 64
"""The most comings that a window keeps, the newest: this many are flapping at any threshold."""


@dataclass
class Window:
    """How one alert came and went. `comings` are the times it began to fire, oldest first; `is_on` is now.

    Flapping as in Nagios Core 4 ("Detection and Handling of State Flapping"): 21 states, 20 possible changes, the
    newest weighing 1.2 and the oldest 0.8. A coming is two changes, there and back, counted at its own time.
    """

    comings: list[int] = field(default_factory=list)
    is_on: bool = False
    is_flapping: bool = False
    now_ms: int = 0
    span_ms: int = 0

    def note(self, now_ms: int, slot_ms: int, *, is_on: bool) -> None:
        """Bring the window to now. Time without an evaluation has no comings."""
        self.now_ms, self.span_ms = max(now_ms, self.now_ms), SLOTS * slot_ms
        if is_on and not self.is_on:
            self.comings.append(self.now_ms)
        self.is_on = is_on
        self.comings = [at for at in self.comings if at + self.span_ms > self.now_ms][-MOST_COMINGS:]

    def judge(self, high: float, low: float) -> bool:
        """Whether it flaps now: it begins above `high`, and ends below `low`."""
        share = self.share()
        self.is_flapping = share >= low if self.is_flapping else share > high
        return self.is_flapping

    def share(self) -> float:
        """Weighted share of changes, 0 to 1."""
        weights = (1.2 - 0.4 * (self.now_ms - at) / self.span_ms for at in self.comings)
        return min(1.0, 2 * sum(weights) / (SLOTS - 1))

    def is_over(self) -> bool:
        """Return whether the alert is off and the window has no comings."""
        return not self.is_on and not self.comings


PENDING, FIRING, RECOVERING, RESOLVED, UNKNOWN = "PENDING", "FIRING", "RECOVERING", "RESOLVED", "UNKNOWN"

TOLD_AGAIN_MS = 60_000
"""Figures alone are written again at most this often."""

QUEUES_STEADY_MS = 20_000
"""Another list of queues is reported once it has stayed the same for a rebalance; one that keeps changing, now and
then.
"""


class Reason(StrEnum):
    """Why a row was written."""

    FIRST_SIGN = "first_sign"  # PENDING: it holds, its hold is running
    DATA_MISSING = "data_missing"  # UNKNOWN: what it is about gives no data
    HOLD_OVER = "hold_over"  # FIRING: seen for long enough, often enough
    CAME_BACK = "came_back"  # FIRING: it held again before it was over
    CAUSE_CHANGED = "cause_changed"
    QUEUES_CHANGED = "queues_changed"
    SEVERITY_CHANGED = "severity_changed"
    INHIBITED = "inhibited"  # an open incident explains it now
    CAUSE_ENDED = "cause_ended"  # what explained it is over, and it is not
    FIGURES_CHANGED = "figures_changed"
    CONDITION_GONE = "condition_gone"  # RECOVERING: it does not hold now
    RECOVERED = "recovered"  # RESOLVED: it stayed away
    NOT_CONFIRMED = "not_confirmed"  # RESOLVED: it went away before it fired
    DATA_RETURNED = "data_returned"  # RESOLVED: the data is back
    GROUP_DELETED = "group_deleted"  # RESOLVED: on purpose
    TOPIC_DELETED = "topic_deleted"
    FORGOTTEN = "forgotten"  # RESOLVED: a person decided that it is gone (`balancewatch forget`)
    GIVEN_UP = "given_up"  # RESOLVED: nothing of what it was about is left


@dataclass(frozen=True)
class Evaluation:
    """One evaluation: when, and how much of what the incident is about gave data.

    `is_seen` False: too little gave data for the incident to end.
    """

    now_ms: int
    completeness: float = 1.0
    is_seen: bool = True


Step = tuple[Incident | None, Transition | None]


def advance(
    incident: Incident | None, finding: Finding | None, evaluation: Evaluation, kind: KindRules, rules: Rules
) -> Step:
    """The incident after this evaluation, and the row to write, if any. `kind` is how alerts of this kind live."""
    if finding is not None and kind.severity:
        finding = replace(finding, severity=kind.severity)
    if incident is None:
        return (None, None) if finding is None else _begin(finding, evaluation, kind)
    passed_ms = evaluation.now_ms - incident.seen_ms
    passed_ms = passed_ms if 0 <= passed_ms <= rules.max_evaluation_gap_ms else 0
    incident = replace(incident, seen_ms=max(evaluation.now_ms, incident.seen_ms))
    if finding is None:
        return _stay_away(incident, evaluation, kind, passed_ms) if evaluation.is_seen else (incident, None)
    if not incident.has_fired:
        held = replace(incident, evaluations=incident.evaluations + 1, held_ms=incident.held_ms + passed_ms)
        return _fire(held, finding, evaluation) if _is_due(held, finding, kind) else (held, None)
    if not finding.is_ready:
        return _linger(replace(incident, calm_ms=0), finding, evaluation, rules.settle_ms)
    return _go_on(replace(incident, calm_ms=0, alone_ms=None), finding, evaluation, rules.settle_ms)


def end(incident: Incident, reason: Reason, evaluation: Evaluation) -> Transition:
    """Return the last row, which says how long the incident lasted."""
    seconds = max(0, evaluation.now_ms - incident.started_at_ms) // 1000
    lasted = phrase("{number} s", number=seconds) if seconds < 120 else phrase("{number} min", number=seconds // 60)
    over = phrase("Resolved after {lasted}: {summary}")
    over = over if incident.has_fired else phrase("Not confirmed after {lasted}: {summary}")
    text = Text(over.given(lasted=lasted, summary=incident.text.summary), phrase("Nothing to do."))
    return _row(replace(incident, text=text), RESOLVED, reason, evaluation)[1]


def _begin(finding: Finding, evaluation: Evaluation, rules: KindRules) -> Step:
    incident = opened(finding, UNKNOWN if finding.is_missing else PENDING, evaluation.now_ms)
    if _is_due(incident, finding, rules):
        return _fire(incident, finding, evaluation)
    return _row(incident, incident.state, Reason.DATA_MISSING if finding.is_missing else Reason.FIRST_SIGN, evaluation)


def _is_due(incident: Incident, finding: Finding, rules: KindRules) -> bool:
    """Seen for long enough in event time, and often enough."""
    is_held = incident.held_ms >= rules.pending_ms and incident.evaluations >= rules.pending_evaluations
    return finding.is_ready and is_held and rules.is_enabled


def _fire(incident: Incident, finding: Finding, evaluation: Evaluation) -> Step:
    return _row(
        replace(with_finding(incident, finding), state=FIRING, fired_at_ms=evaluation.now_ms),
        FIRING,
        Reason.HOLD_OVER,
        evaluation,
    )


def _go_on(incident: Incident, finding: Finding, evaluation: Evaluation, settle_ms: int) -> Step:
    """The incident fires, or fires again from RECOVERING; a row when its content has changed."""
    if incident.state == RECOVERING:
        back = replace(with_finding(incident, finding), state=FIRING, flaps=incident.flaps + 1)
        return _row(back, FIRING, Reason.CAME_BACK, evaluation)
    incident = _note_queues(incident, finding, evaluation.now_ms)
    reason = _what_changed(incident, finding, evaluation, settle_ms)
    return (incident, None) if reason is None else _row(with_finding(incident, finding), FIRING, reason, evaluation)


def _linger(incident: Incident, finding: Finding, evaluation: Evaluation, settle_ms: int) -> Step:
    """The finding holds and is not ready. When its inhibitor ended `settle_ms` ago: FIRING again with the last text,
    reason CAUSE_ENDED.
    """
    if incident.state != FIRING or not incident.inhibited_by or finding.inhibited_by:
        return replace(incident, alone_ms=None), None
    alone_ms = evaluation.now_ms if incident.alone_ms is None else incident.alone_ms
    if evaluation.now_ms < alone_ms + settle_ms:
        return replace(incident, alone_ms=alone_ms), None
    return _row(replace(incident, alone_ms=None, inhibited_by=None), FIRING, Reason.CAUSE_ENDED, evaluation)


def _note_queues(incident: Incident, finding: Finding, now_ms: int) -> Incident:
    """Note since when the finding is about these queues, where the last row has others."""
    if finding.queues == incident.queues:
        return incident if incident.next_queues is None else replace(incident, next_queues=None)
    if finding.queues == incident.next_queues:
        return incident
    differs_ms = now_ms if incident.next_queues is None else incident.differs_ms
    return replace(incident, next_queues=finding.queues, next_ms=now_ms, differs_ms=differs_ms)


def _what_changed(incident: Incident, finding: Finding, evaluation: Evaluation, settle_ms: int) -> Reason | None:
    """The strongest change that deserves a row."""
    if incident.inhibited_by != finding.inhibited_by:
        return Reason.INHIBITED if finding.inhibited_by else Reason.CAUSE_ENDED
    if incident.cause != finding.cause:
        return Reason.CAUSE_CHANGED
    if incident.next_queues is not None:
        is_steady = evaluation.now_ms >= incident.next_ms + QUEUES_STEADY_MS
        if is_steady or evaluation.now_ms >= incident.differs_ms + settle_ms:
            return Reason.QUEUES_CHANGED
    if incident.severity != finding.severity:
        return Reason.SEVERITY_CHANGED
    is_time = evaluation.now_ms >= incident.written_ms + TOLD_AGAIN_MS
    return Reason.FIGURES_CHANGED if is_time and incident.figures != finding.figures else None


def _stay_away(incident: Incident, evaluation: Evaluation, rules: KindRules, passed_ms: int) -> Step:
    """The finding does not hold. An incident that never fired ends at once; one that fired is RECOVERING, and ends
    after `recovering_ms` without the finding.
    """
    if not incident.has_fired:
        reason = Reason.DATA_RETURNED if incident.state == UNKNOWN else Reason.NOT_CONFIRMED
        return None, end(incident, reason, evaluation)
    calm = replace(incident, calm_ms=incident.calm_ms + (passed_ms if incident.state == RECOVERING else 0))
    if calm.calm_ms >= rules.recovering_ms and not calm.is_flapping:
        return None, end(calm, Reason.RECOVERED, evaluation)
    if incident.state == RECOVERING:
        return calm, None
    return _row(replace(calm, state=RECOVERING), RECOVERING, Reason.CONDITION_GONE, evaluation)


def _row(incident: Incident, state: str, reason: Reason, evaluation: Evaluation) -> tuple[Incident, Transition]:
    is_back = evaluation.now_ms < incident.written_ms  # told by Kafka's time once, while no tick came
    at_ms = incident.written_ms + 1 if is_back else evaluation.now_ms
    incident = replace(incident, written_ms=at_ms)
    return incident, Transition(incident, state, reason, at_ms, evaluation.completeness)


def step(
    incidents: dict[str, Incident],
    windows: dict[str, Window],
    kind: str,
    findings: Mapping[str, Finding],
    evaluations: Evaluation | Callable[[Incident | None], Evaluation],
    rules: Rules,
) -> Iterator[Transition]:
    """Move all incidents of one kind; keys are the kind, or the kind and its subject, apart by a blank.

    `windows` remember how the alerts came and went, past their end, so that one that keeps coming back is held open.
    `evaluations` is that of all incidents, or of each.
    """
    if not (findings or incidents or windows):
        return
    of_kind = rules.of_kind(kind)
    known = {key for key in (*incidents, *windows) if key == kind or key.startswith(f"{kind} ")}
    for key in sorted(known | findings.keys()):
        incident, window = incidents.pop(key, None), windows.get(key)
        evaluation = evaluations if isinstance(evaluations, Evaluation) else evaluations(incident)
        incident, transition = advance(incident, findings.get(key), evaluation, of_kind, rules)
        is_on = incident is not None and incident.state == FIRING
        if window is None and is_on:
            window = windows[key] = Window()
        if window is not None and evaluation.is_seen:
            window.note(evaluation.now_ms, rules.flap_slot_ms, is_on=is_on)
            window.judge(rules.flap_high, rules.flap_low)
            if window.is_over():
                del windows[key]
        if incident is not None:
            incident.is_flapping = window is not None and window.is_flapping
            if transition is not None:
                transition = replace(transition, incident=incident)
            incidents[key] = incident
        if transition is not None:
            yield transition


def is_waiting(incidents: Mapping[str, Incident], rules: Rules) -> bool:
    """Return whether time alone may move an incident on. An incident of a disabled kind stays PENDING until its
    condition ends, which takes more than time.
    """
    return any(
        incident.alone_ms is not None or incident.next_queues is not None
        if incident.state == FIRING
        else incident.has_fired or rules.of_kind(incident.kind).is_enabled
        for incident in incidents.values()
    )


ON_HEARTBEATS = frozenset(
    {"duplicate_client_id", "split_view", "inconsistent_subscription", "group_offline", "client_id_at_risk"}
)
"""Kinds that rest on the members' heartbeats; the others rest on what their own queues and brokers report."""


@dataclass(frozen=True)
class Coverage:
    """How much of the data of one group arrived at one evaluation; shares are 0 to 1. Missing data ends nothing.

    Cruise Control and Burrow do the same: COMPLETENESS_NOT_READY, and a `complete` of 0 to 1 for each partition.

    brokers              share of the group's brokers that gave data
    heartbeats           share of its members whose heartbeats are on time
    answers              share of its members whose own answers are not missing
    without_data         brokers without data
    queues_without_data  (topic, queue) whose pulls no broker or client could report
    """

    now_ms: int
    brokers: float = 1.0
    heartbeats: float = 1.0
    answers: float = 1.0
    without_data: frozenset[str] = frozenset()
    completeness_min: float = 0.0
    queues_without_data: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(
        cls,
        now_ms: int,
        brokers: Iterable[str],
        without_data: frozenset[str],
        last_heartbeat_ms: Mapping[str, int],
        missing_members: frozenset[str] = frozenset(),
        queues_without_data: frozenset[tuple[str, str]] = frozenset(),
        *,
        late_ms: int,
        completeness_min: float,
    ) -> "Coverage":
        """`last_heartbeat_ms` is by ClientId; a heartbeat of `late_ms` or before is late. The own answers of
        `missing_members` are missing.
        """
        known, members = set(brokers), len(last_heartbeat_ms)
        fresh = sum(at_ms > late_ms for at_ms in last_heartbeat_ms.values())
        return cls(
            now_ms,
            _share(len(known - without_data), len(known)),
            _share(fresh, members),
            _share(members - len(last_heartbeat_ms.keys() & missing_members), members),
            without_data,
            completeness_min,
            queues_without_data,
        )

    @property
    def completeness(self) -> float:
        """Of the entire group: what its verdicts carry."""
        return min(self.brokers, self.heartbeats, self.answers)

    def evaluation(self, incident: Incident | None) -> Evaluation:
        """Return one incident's evaluation, with the completeness of what that incident rests on.

        Its own brokers and queues must all have given data, and enough of the group's brokers where it names none; a
        kind of ON_HEARTBEATS needs enough members on time besides.
        """
        if incident is None:
            return Evaluation(self.now_ms, self.completeness, self.completeness >= self.completeness_min)
        own = brokers_of(incident)
        of_own, of_group = _share(len(own - self.without_data), len(own)), 1.0
        if incident.kind in ON_HEARTBEATS:
            of_group = self.heartbeats
        else:
            lost = {queue for queue in incident.queues if (incident.topic or "", queue) in self.queues_without_data}
            of_own = min(of_own, _share(len(incident.queues) - len(lost), len(incident.queues)))
        if not own:
            of_group = min(of_group, self.brokers)
        is_seen = of_own == 1.0 and of_group >= self.completeness_min
        return Evaluation(self.now_ms, min(of_own, of_group), is_seen)


def _share(part: int, whole: int) -> float:
    """A share of nothing is 1."""
    return round(part / whole, 4) if whole else 1.0
