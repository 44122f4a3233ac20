"""One row of the alerts table as the relay reads it: which step of the incident it is, and what there is to tell."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from streaming.oncall.notice import Notice
from streaming.text.json_text import parse_object
from streaming.text.times import to_ms
from udfs.alerts.pattern import LABELS

RANKS = {"UNKNOWN": 0, "PENDING": 0, "FIRING": 1, "RECOVERING": 2, "RESOLVED": 3}
"""The order of steps that one moment made."""

REQUIRED = ("alert_id", "incident_id", "kind", "severity", "state", "cluster", "summary", "advice")

IDENTITY = ("cluster", "consumer_group", "topic", "broker_name", "client_id")


@dataclass(frozen=True)
class Transition:
    """`state` as in the table. `inhibited_by` is the incident that explains this one: then nobody is told."""

    state: str
    inhibited_by: str | None
    notice: Notice

    @property
    def incident_id(self) -> str:
        return self.notice.incident_id

    @property
    def at_ms(self) -> int:
        return self.notice.changed_at_ms

    @property
    def position(self) -> tuple[int, int]:
        """Rows of an incident are in this order; one that is not after the newest has been seen before."""
        return self.at_ms, RANKS.get(self.state, 0)


def read_transition(row: Mapping[str, Any]) -> Transition:
    """From a row of the alerts table; times as epoch ms or as datetimes, absent columns as null.

    Raises ValueError and others for a row that cannot be read (streaming.warehouse.readable_rows).
    """
    need(row, REQUIRED)
    queues = row.get("queues")
    notice = Notice(
        alert_id=row["alert_id"],
        incident_id=row["incident_id"],
        kind=row["kind"],
        severity=row["severity"],
        status="resolved" if row["state"] == "RESOLVED" else "firing",
        cause=row.get("cause"),
        reason=row.get("reason"),
        labels=_labels(row),
        cluster=row["cluster"],
        consumer_group=row.get("consumer_group"),
        topic=row.get("topic"),
        broker_name=row.get("broker_name"),
        client_id=row.get("client_id"),
        queues=tuple(queue for queue in queues if queue is not None) if queues is not None else (),
        summary=row["summary"],
        advice=row["advice"],
        started_at_ms=to_ms(row["started_at"]),
        changed_at_ms=to_ms(row["changed_at"]),
        evidence=parse_object(row.get("evidence")),
    )
    return Transition(row["state"], row.get("inhibited_by"), notice)


def need(row: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raises ValueError for the first of these that the row has no value of."""
    for name in names:
        if row[name] is None:
            raise ValueError(f"{name} is null")


def match_labels(notice: Notice) -> dict[str, str | None]:
    """What routes and silences look at."""
    return {name: getattr(notice, name) for name in LABELS}


def _labels(row: Mapping[str, Any]) -> dict[str, str]:
    """The identity labels; of an older release's row those of its columns that are set."""
    labels = parse_object(row.get("labels")) or {name: row[name] for name in IDENTITY if row.get(name)}
    return {str(name): str(value) for name, value in labels.items()}
