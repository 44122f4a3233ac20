"""The delivery log's rows: what is owed to whom, what came of each attempt, and why something was not told."""

from dataclasses import dataclass
from typing import Any, Literal

from streaming.oncall.notice import Notice

Outcome = Literal["PENDING", "DELIVERED", "RETRYING", "REFUSED", "SILENCED", "INHIBITED", "LIMITED", "NO_ROUTE"]
"""PENDING: owed from now on. RETRYING: an attempt failed. REFUSED: given up. The rest: not told, and why not."""

EVERYBODY = "*"
"""The receiver of a row that says why nobody is told."""


@dataclass(frozen=True)
class Record:
    """One row of alert_deliveries. Renewals leave none."""

    incident_id: str
    delivery_key: str
    kind: str
    status: str
    outcome: Outcome
    changed_at_ms: int
    at_ms: int
    receiver: str = EVERYBODY
    route: str | None = None
    reason: str | None = None
    attempt: int = 0
    code: int | None = None
    latency_ms: int = 0

    def row(self) -> dict[str, Any]:
        """As a row of the table, times in epoch ms."""
        fields = dict(self.__dict__)
        fields["changed_at"], fields["delivered_at"] = fields.pop("changed_at_ms"), fields.pop("at_ms")
        fields["state"] = STATES[self.status]
        return fields


STATES = {"firing": "FIRING", "resolved": "RESOLVED", "acknowledged": "ACKNOWLEDGED"}


def record_of(notice: Notice, outcome: Outcome, now_ms: int, **fields: Any) -> Record:
    """A row about one transition."""
    return Record(
        notice.incident_id,
        notice.key,
        notice.kind,
        notice.status,
        outcome,
        notice.changed_at_ms,
        now_ms,
        **fields,
    )
