"""One thing that one receiver is owed, and what the receiver has of each incident so far."""

from collections import deque
from dataclasses import dataclass, field

from streaming.oncall.notice import Notice


@dataclass(frozen=True)
class Acknowledgement:
    """Somebody is at it. `at_ms` is when they said so."""

    incident_id: str
    acknowledged_by: str
    note: str
    at_ms: int


@dataclass
class Delivery:
    """A notice to deliver, or with `acknowledgement` the word that somebody is at that incident.

    `due_at_ms` is by the pace (streaming.oncall.now). `rejected_attempts` are the attempts that failed, as far as one
    can tell, because of what was sent, not for want of an answer.
    """

    notice: Notice
    route: str
    due_at_ms: int
    attempts: int = 0
    rejected_attempts: int = 0
    acknowledgement: Acknowledgement | None = None

    @property
    def key(self) -> str:
        if self.acknowledgement is None:
            return self.notice.key
        return f"{self.notice.incident_id}:acknowledged:{self.acknowledgement.at_ms}"

    @property
    def status(self) -> str:
        return self.notice.status if self.acknowledgement is None else "acknowledged"


@dataclass
class IncidentQueue:
    """One incident at one receiver: what is owed, in its order, and the newest that it has. Times are by the pace."""

    owed: deque[Delivery] = field(default_factory=deque)
    delivered: Notice | None = None
    delivered_at_ms: int = 0
    renewed_at_ms: int = 0
    not_before_ms: int = 0
    is_alone: bool = False

    def is_open_there(self) -> bool:
        return self.delivered is not None and self.delivered.status == "firing"


@dataclass(frozen=True)
class Send:
    """One call of a receiver, to be made now. Without deliveries it is a renewal: nothing new, things stay alive."""

    receiver: str
    notices: tuple[Notice, ...]
    deliveries: tuple[Delivery, ...] = ()

    @property
    def is_renewal(self) -> bool:
        return not self.deliveries

    @property
    def acknowledgement(self) -> Acknowledgement | None:
        """Set where the call is not `send` but `acknowledge`."""
        return self.deliveries[0].acknowledgement if self.deliveries else None
