"""What a receiver is told of one incident: its newest facts, and whether it goes on or is over."""

from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["firing", "resolved"]


@dataclass(frozen=True)
class Notice:
    """One transition of one incident, as it is delivered. Times are epoch ms of event time.

    `labels` are the identity labels, `kind` not among them. `is_first` says that the receiver has not been told of the
    incident before; a later firing notice tells what changed.
    """

    alert_id: str
    incident_id: str
    kind: str
    severity: str
    status: Status
    cause: str | None
    reason: str | None
    labels: dict[str, str]
    cluster: str
    consumer_group: str | None
    topic: str | None
    broker_name: str | None
    client_id: str | None
    queues: tuple[str, ...]
    summary: str
    advice: str
    started_at_ms: int
    changed_at_ms: int
    evidence: dict[str, Any] = field(default_factory=dict)
    is_first: bool = True

    @property
    def key(self) -> str:
        """The same for the same transition however often it is sent: receivers drop repetitions by it."""
        return f"{self.incident_id}:{self.status}:{self.changed_at_ms}"
