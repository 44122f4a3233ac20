"""What the relay knows of one incident that is not over, and what of a row is worth telling again."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from streaming.oncall.notice import Notice
from streaming.oncall.own_alerts import OWN_KINDS
from streaming.oncall.record import Outcome
from streaming.oncall.transition import Transition
from udfs.page_limit import Waiting, rank_of
from udfs.routing import QUIET


@dataclass(frozen=True)
class Hold:
    """Why it is not told, or not told again: the silence, the incident that explains it, the limit, or no route."""

    outcome: Outcome
    reason: str
    at_ms: int


@dataclass
class Story:
    """`newest` is its newest row, `last_firing` the newest that nothing suppressed. `stopped_at_ms` is its first
    RECOVERING row after the last FIRING one. `told` is what its receivers, which are with their routes, were told
    last; None before the first.
    """

    newest: Transition | None = None
    fired_at_ms: int | None = None
    last_firing: Notice | None = None
    stopped_at_ms: int | None = None
    told: Notice | None = None
    receivers: dict[str, str] = field(default_factory=dict)
    hold: Hold | None = None

    def follow(self, transition: Transition) -> None:
        """Its next row."""
        self.newest = transition
        if transition.state == "FIRING":
            self.stopped_at_ms = None
        elif transition.state == "RECOVERING" and self.stopped_at_ms is None:
            self.stopped_at_ms = transition.at_ms

    def is_decided(self) -> bool:
        """Whether it has fired, so that somebody was told of it, or it was noted why nobody is."""
        return self.told is not None or self.hold is not None

    def is_heard(self) -> bool:
        """Whether somebody knows of it, or said that nobody need; not when no route takes it, or only the log.

        Nor before it is decided.
        """
        if self.told is not None:
            return any(route != QUIET for route in self.receivers.values())
        return self.hold is not None and self.hold.outcome != "UNROUTED"

    def is_held(self) -> bool:
        """Whether its newest row is not told, and why is in `hold`."""
        if self.hold is None or self.newest is None:
            return False
        return self.told is None or content(self.newest.notice) != content(self.told)

    def waiting(self) -> Waiting:
        """Its place among those that the limit holds back."""
        assert self.newest is not None, "it has a row"  # noqa: S101  # only stories that fire wait
        notice = self.newest.notice
        return Waiting(self.fired_at_ms or 0, rank_of(notice.severity), notice.incident_id)


def content(notice: Notice, *, with_queues: bool = True) -> tuple[str | None, ...]:
    """What must differ for a firing alert to be told again: cause, queues, severity. Of our own also the count."""
    own = notice.summary if notice.kind in OWN_KINDS else None
    return (notice.cause, notice.severity, own, *(notice.queues if with_queues else ()))


def fired_until_ms(rows: Sequence[Transition]) -> int:
    """When it fired last, of an incident that is over: recovering it only waits to be called so."""
    story = Story()
    for row in rows:
        story.follow(row)
    return rows[-1].at_ms if story.stopped_at_ms is None else story.stopped_at_ms
