"""Rows as the relay reads and writes them: alerts, deliveries, acknowledgements; and the text of a notice."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

from streaming.text.result import parse_object
from streaming.text.times import to_ms
from streaming.text.visible_text import visible_name
from streaming.warehouse.readable_rows import Row
from udfs.alerts.pattern import LABELS
from udfs.alerts.routing import WATCHDOG
from udfs.alerts.runbook import runbook_url
from udfs.alerts.self_kinds import RELAY_KINDS

RANKS = {"UNKNOWN": 0, "PENDING": 0, "FIRING": 1, "RECOVERING": 2, "RESOLVED": 3}
"""The order of states within one millisecond."""

IDENTITY = ("cluster", "consumer_group", "topic", "broker_name", "client_id")
REQUIRED = ("alert_id", "incident_id", "kind", "severity", "state", "cluster", "summary", "advice")
PLAIN = (*REQUIRED, "cause", "reason", "inhibited_by", *IDENTITY[1:])
"""Columns that a notice has as they are."""

CUT = "…"

ONCALL_TEST = "oncall_test"
"""The kind of the alert of `oncall test`, which is in no table."""


@dataclass(frozen=True)
class Notice:
    """One row of the alerts table, as it is delivered. Times are epoch ms of event time.

    labels              identify the alert, without its kind
    static_labels       those that [[labels]] adds; they do not identify it
    inhibited_by        the incident that explains this one
    is_first            the receiver has no earlier notice of the incident
    acknowledged_at_ms  when a person acknowledged the incident, if that is to be delivered
    """

    alert_id: str
    incident_id: str
    kind: str
    severity: str
    status: Literal["firing", "acknowledged", "resolved"]
    labels: dict[str, str]
    cluster: str
    summary: str
    advice: str
    started_at_ms: int
    changed_at_ms: int
    state: str = "FIRING"
    cause: str | None = None
    reason: str | None = None
    inhibited_by: str | None = None
    consumer_group: str | None = None
    topic: str | None = None
    broker_name: str | None = None
    client_id: str | None = None
    queues: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    static_labels: Mapping[str, str] = field(default_factory=dict)
    is_first: bool = True
    acknowledged_at_ms: int | None = None

    @property
    def key(self) -> str:
        """The deduplication key: the same for the same transition, however often it is sent."""
        return f"{self.incident_id}:{self.status}:{self.acknowledged_at_ms or self.changed_at_ms}"

    @property
    def position(self) -> tuple[int, int]:
        """The order of an incident's rows; a row that is not after the newest one is a repetition."""
        return self.changed_at_ms, RANKS.get(self.state, 0)

    @property
    def scope(self) -> tuple[str, str]:
        """What the limit counts by."""
        return self.cluster, self.kind

    def content(self, *, with_queues: bool = True) -> tuple[str | None, ...]:
        """What must differ for another notification: cause, severity, queues; of the relay's own alerts the summary."""
        own = self.summary if self.kind in RELAY_KINDS else None
        return (self.cause, self.severity, own, *(self.queues if with_queues else ()))

    def match_labels(self) -> dict[str, str | None]:
        """Return the labels that routes and silences match."""
        return {**self.static_labels, **{name: getattr(self, name) for name in LABELS}}

    def all_labels(self) -> dict[str, str]:
        """Return the labels that receivers get, besides kind and severity."""
        return {**self.static_labels, **self.labels}


def read_notice(row: Row) -> Notice:
    """Read a row of the alerts table; times are epoch ms or datetimes, absent columns are null.

    Raises ValueError and others for an unreadable row (streaming.warehouse.readable_rows).
    """
    need(row, REQUIRED)
    queues = row.get("queues")
    labels = _read_labels(row.get("labels")) or {name: row[name] for name in IDENTITY if row.get(name)}
    plain: dict[str, Any] = {name: row.get(name) for name in PLAIN}
    return Notice(
        status="resolved" if row["state"] == "RESOLVED" else "firing",
        labels=labels,
        started_at_ms=to_ms(row["started_at"]),
        changed_at_ms=to_ms(row["changed_at"]),
        queues=tuple(queue for queue in queues if queue is not None) if queues is not None else (),
        evidence=parse_object(row.get("evidence")),
        **plain,
    )


def _read_labels(text: str | None) -> dict[str, str]:
    return {str(name): str(value) for name, value in parse_object(text).items()}


def need(row: Row, names: Iterable[str]) -> None:
    """Raise ValueError for the first of these columns that is null."""
    for name in names:
        if row[name] is None:
            raise ValueError(f"{name} is null")


Outcome = Literal["PENDING", "DELIVERED", "RETRYING", "REFUSED", "SILENCED", "INHIBITED", "LIMITED", "NO_ROUTE"]
"""PENDING: due from now on. RETRYING: an attempt failed. REFUSED: given up. The others: not notified, and why."""

EVERYBODY = "*"
"""The receiver of a row that says why no receiver is notified."""


def record_of(notice: Notice, outcome: Outcome, now_ms: int, **cells: Any) -> Row:
    """Return a row of alert_deliveries about one transition; times are epoch ms. Renewals leave none."""
    row = {
        "incident_id": notice.incident_id,
        "state": notice.status.upper(),
        "receiver": EVERYBODY,
        "attempt": 0,
        "latency_ms": 0,
        "delivered_at": now_ms,
        "delivery_key": notice.key,
        "kind": notice.kind,
        "status": notice.status,
        "changed_at": notice.changed_at_ms,
        "outcome": outcome,
        "static_labels": json.dumps(notice.static_labels) if notice.static_labels else None,
    }
    return row | cells


def read_record(row: Row) -> Row:
    """Return a row of alert_deliveries as `record_of` makes it. Raises as read_notice."""
    need(row, ("incident_id", "delivery_key", "receiver", "status", "outcome"))
    known = {"attempt": row["attempt"] or 0, "static_labels": _read_labels(row["static_labels"])}
    return {**row, **known, "delivered_at": to_ms(row["delivered_at"])}


@dataclass(frozen=True)
class Now:
    """The present in epoch ms of the wall clock, and in ms of a monotonic clock (pace) that waits are counted by.

    A wall clock can be set back; waits and leases must not depend on it.
    """

    wall_ms: int
    pace_ms: int

    def pace_of(self, wall_ms: int) -> int:
        """Convert a stored time; a time in the future becomes now."""
        return self.pace_ms - max(0, self.wall_ms - wall_ms)


def start_clock(wall_ms: Callable[[], int], pace_ns: Callable[[], int] = time.monotonic_ns) -> Callable[[], Now]:
    """Return a function that reads both clocks. The pace starts at the wall clock's time."""
    zero_ms = wall_ms() - pace_ns() // 1_000_000
    return lambda: Now(wall_ms(), zero_ms + pace_ns() // 1_000_000)


@dataclass(frozen=True)
class Links:
    """Public URLs of the board and of the runbooks, with the language of their labels; empty ones give no links."""

    board_url: str = ""
    runbooks_url: str = ""
    language: str = "en"

    def incident(self, notice: Notice) -> str | None:
        """Return the page of the incident; the watchdog and a test, which are in no table, link to the first page."""
        if not self.board_url:
            return None
        is_in_no_table = notice.kind in (WATCHDOG, ONCALL_TEST)
        page = "" if is_in_no_table else f"incident?id={quote(notice.incident_id, safe='')}"
        return f"{self.board_url.rstrip('/')}/{page}"

    def runbook(self, notice: Notice) -> str | None:
        """Return the page of its kind, at its cause."""
        return runbook_url(self.runbooks_url, notice.kind, notice.cause) if self.runbooks_url else None


NO_LINKS = Links()


def one_line(text: str, characters: int) -> str:
    """Return `text` in one line of at most `characters`, with an ellipsis where it is cut."""
    printable = (one if one.isprintable() else " " for one in text)
    line = visible_name(" ".join("".join(printable).split()))  # Python calls some characters without width printable
    return line if len(line) <= characters else line[: characters - 1] + CUT
