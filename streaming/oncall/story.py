"""What the relay knows of one incident that is not over, and what of a row is worth telling again."""

from dataclasses import dataclass, field

from streaming.oncall.notice import Notice
from streaming.oncall.own_alerts import OWN_KINDS
from streaming.oncall.record import Outcome
from streaming.oncall.transition import Transition
from udfs.page_limit import Waiting, rank_of


@dataclass(frozen=True)
class Hold:
    """Why it is not told, or not told again: the silence, the incident that explains it, or the limit."""

    outcome: Outcome
    reason: str
    at_ms: int


@dataclass
class Story:
    """`newest` is its newest row, `last_firing` the newest that nothing suppressed. `told` is what its receivers, which
    are with their routes, were told last; None before the first.
    """

    newest: Transition | None = None
    fired_at_ms: int | None = None
    last_firing: Notice | None = None
    told: Notice | None = None
    receivers: dict[str, str] = field(default_factory=dict)
    hold: Hold | None = None

    def waiting(self) -> Waiting:
        """Its place among those that the limit holds back."""
        assert self.newest is not None, "it has a row"  # noqa: S101  # only stories that fire wait
        notice = self.newest.notice
        return Waiting(self.fired_at_ms or 0, rank_of(notice.severity), notice.incident_id)


def content(notice: Notice) -> tuple[str | None, ...]:
    """What must differ for a firing alert to be told again: cause, queues, severity. Of our own also the count."""
    own = notice.summary if notice.kind in OWN_KINDS else None
    return (notice.cause, notice.severity, own, *notice.queues)
