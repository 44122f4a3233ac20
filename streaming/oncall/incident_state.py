"""What the relay knows of one incident that is not over, and what of a row is worth reporting again."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from streaming.oncall.notice import Notice
from streaming.oncall.record import Outcome
from streaming.oncall.transition import Transition
from udfs.alerts.firing_limit import Waiting, rank_of
from udfs.alerts.routing import QUIET
from udfs.alerts.self_kinds import RELAY_KINDS


@dataclass(frozen=True)
class WithheldReason:
    """Why the incident's newest row is not notified: the silence, the inhibitor, the limit, or no route."""

    outcome: Outcome
    reason: str
    at_ms: int


@dataclass
class IncidentState:
    """One incident, as the relay knows it.

    newest         its newest row
    fired_at_ms    when it first fired without an inhibitor
    last_firing    the newest FIRING row without an inhibitor
    stopped_at_ms  the first RECOVERING row after the last FIRING one
    notified       what its receivers were notified of last; None before the first notification
    receivers      receiver → the route that took it
    withheld       why `newest` is not notified; None where it is
    """

    newest: Transition | None = None
    fired_at_ms: int | None = None
    last_firing: Notice | None = None
    stopped_at_ms: int | None = None
    notified: Notice | None = None
    receivers: dict[str, str] = field(default_factory=dict)
    withheld: WithheldReason | None = None

    def follow(self, transition: Transition) -> None:
        """Take the incident's next row."""
        self.newest = transition
        if transition.state == "FIRING":
            self.stopped_at_ms = None
        elif transition.state == "RECOVERING" and self.stopped_at_ms is None:
            self.stopped_at_ms = transition.at_ms

    def is_decided(self) -> bool:
        """Whether the incident has fired: somebody was notified of it, or the reason why nobody was is recorded."""
        return self.notified is not None or self.withheld is not None

    def is_heard(self) -> bool:
        """Whether somebody knows of the incident, or has silenced it.

        False where no route takes it, where only the log has it, and before it is decided.
        """
        if self.notified is not None:
            return any(route != QUIET for route in self.receivers.values())
        return self.withheld is not None and self.withheld.outcome != "NO_ROUTE"

    def is_held(self) -> bool:
        """Whether the newest row is withheld."""
        if self.withheld is None or self.newest is None:
            return False
        return self.notified is None or content(self.newest.notice) != content(self.notified)

    def waiting(self) -> Waiting:
        """The incident's place among those that the limit holds back."""
        assert self.newest is not None, "it has a row"  # noqa: S101  # only what fires waits
        notice = self.newest.notice
        return Waiting(self.fired_at_ms or 0, rank_of(notice.severity), notice.incident_id)


def content(notice: Notice, *, with_queues: bool = True) -> tuple[str | None, ...]:
    """What must differ for a firing alert to be notified again: cause, queues, severity; of the relay's own alerts the
    count in the summary as well.
    """
    own = notice.summary if notice.kind in RELAY_KINDS else None
    return (notice.cause, notice.severity, own, *(notice.queues if with_queues else ()))


def fired_until_ms(rows: Sequence[Transition]) -> int:
    """When an incident that is over fired last: the time in RECOVERING does not count."""
    incident_state = IncidentState()
    for row in rows:
        incident_state.follow(row)
    return rows[-1].at_ms if incident_state.stopped_at_ms is None else incident_state.stopped_at_ms
