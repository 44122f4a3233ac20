"""Replay of recorded events by the query's code under other rules, and the pages it would send."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table
from rich.text import Text

from conf.location import Location
from schemas.tables import ALERT_DELIVERIES, ALERTS
from streaming.replay.recorded import Slice
from streaming.replay.stream import Stream
from streaming.text.console import VisibleConsole
from streaming.text.output import say, write_csv, write_json
from streaming.text.times import iso, to_ms
from streaming.warehouse.readable_rows import open_written, read_files, read_table, whole
from streaming.warehouse.warehouse_error import NotWrittenError
from udfs.alerts.kinds import KIND_FACTS
from udfs.alerts.rulebook import CANARY_CLUSTER, Rulebook

NEEDED = (
    "alert_id",
    "incident_id",
    "kind",
    "severity",
    "state",
    "cluster",
    "consumer_group",
    "topic",
    "summary",
    "inhibited_by",
    "started_at",
    "changed_at",
    "batch_id",
)


@dataclass
class Page:
    """One incident. Times are epoch ms of event time; `paged_ms` is None while it has not paged."""

    alert_id: str
    incident_id: str
    kind: str
    severity: str
    cluster: str
    consumer_group: str | None
    topic: str | None
    summary: str
    started_ms: int
    paged_ms: int | None = None
    ended_ms: int | None = None

    def overlaps(self, other: "Page") -> bool:
        """Return whether both are about the same subject at overlapping times."""
        is_before_end = other.ended_ms is None or self.started_ms <= other.ended_ms
        is_after_start = self.ended_ms is None or other.started_ms <= self.ended_ms
        return self.alert_id == other.alert_id and is_before_end and is_after_start


class Pages:
    """Incidents built from rows of the alerts table, oldest first. Resolved ones that never paged are dropped."""

    def __init__(self) -> None:
        self._known: dict[str, Page] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        page = self._known.get(row["incident_id"])
        if page is None:
            names = ("alert_id", "incident_id", "kind", "severity", "cluster", "consumer_group", "topic", "summary")
            page = Page(**{name: row[name] for name in names}, started_ms=row["started_at"])
            self._known[page.incident_id] = page
        if row["state"] == "RESOLVED":
            page.ended_ms = row["changed_at"]
            if page.paged_ms is None:
                del self._known[page.incident_id]
        elif row["state"] == "FIRING" and page.paged_ms is None:
            page.severity, page.summary = row["severity"], row["summary"]
            if row["inhibited_by"] is None and row["severity"] != "info":
                page.paged_ms = row["changed_at"]

    def paged(self) -> list[Page]:
        """Return the incidents that paged, in order of their page."""
        paged = [page for page in self._known.values() if page.paged_ms is not None]
        return sorted(paged, key=lambda page: (page.paged_ms, page.incident_id))


def read_pages(warehouse: Location, to_ms_: int, cluster: str | None, consumer_group: str | None) -> list[Page]:
    """Return the pages sent until then, from alerts and the delivery log. Raises NotWrittenError without alerts.

    An incident that the log marks as not notified (silence, limit, no route) is no page.
    """
    condition = pc.field("kind").isin(sorted(KIND_FACTS))  # without the relay's alerts about its receivers
    if cluster is None:
        condition = condition & (pc.field("cluster") != CANARY_CLUSTER)
    for name, value in {"cluster": cluster, "consumer_group": consumer_group}.items():
        if value is not None:
            condition = condition & (pc.field(name) == value)
    keep_contract = whole(ALERTS)

    def read(row: Mapping[str, Any]) -> dict[str, Any]:
        times = {name: to_ms(row[name]) for name in ("started_at", "changed_at")}
        return {**keep_contract(row), **times}

    pages = Pages()
    for row in read_table(warehouse, ALERTS, condition, NEEDED, read=read):
        if row["changed_at"] < to_ms_:
            pages.add(row)
    unreported = _read_unreported(warehouse)
    return [page for page in pages.paged() if page.incident_id not in unreported]


def _read_unreported(warehouse: Location) -> set[str]:
    """Return the incidents of the delivery log that no receiver was notified of."""
    try:
        table = open_written(warehouse, ALERT_DELIVERIES)
    except NotWrittenError:
        return set()
    rows = read_files(ALERT_DELIVERIES, table, ("incident_id", "outcome"))
    is_notified = pc.is_in(rows["outcome"], pa.array(["PENDING", "DELIVERED", "RETRYING", "REFUSED"]))
    notified = set(rows.filter(is_notified)["incident_id"].to_pylist())
    return set(rows["incident_id"].to_pylist()) - notified


@dataclass(frozen=True)
class Outcome:
    """A page of one run or both: `replayed` under the rules under test, `notified` under those in force at the time."""

    outcome: Literal["same", "new", "gone"]
    page: Page
    replayed_ms: int | None
    notified_ms: int | None


def compare(replayed: Sequence[Page], notified: Sequence[Page], from_ms: int, to_ms_: int) -> list[Outcome]:
    """Return the pages of [from, to), oldest first; pages of overlapping incidents are the same."""
    outcomes, left = [], list(notified)
    for page in replayed:
        match = next((other for other in left if other.overlaps(page)), None)
        if match is None:
            outcomes.append(Outcome("new", page, page.paged_ms, None))
        else:
            left.remove(match)
            outcomes.append(Outcome("same", page, page.paged_ms, match.paged_ms))
    outcomes += [Outcome("gone", page, None, page.paged_ms) for page in left]
    listed = [
        outcome
        for outcome in outcomes
        if any(at_ms is not None and from_ms <= at_ms < to_ms_ for at_ms in (outcome.replayed_ms, outcome.notified_ms))
    ]
    return sorted(listed, key=lambda outcome: (outcome.page.paged_ms, outcome.page.incident_id))


def count(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Return the number of each outcome."""
    counts: Counter[str] = Counter(outcome.outcome for outcome in outcomes)
    return {name: counts[name] for name in MEANINGS}


MEANINGS = {"same": "sent, unchanged", "new": "was not sent", "gone": "was sent, would not be"}
STYLES = {"new": "bold red", "gone": "yellow", "same": "green"}

WARM_UP_MS = 900_000
"""Length of the warm-up before the span. Heartbeats and routes come every 30 s, and the second longest hold, a client's
expired pulls and the settling after them, takes 4 minutes."""

MOST_TRANSITIONS = 100_000


@dataclass(frozen=True)
class Asked:
    """The span [from, to) in epoch ms, and a filter on alerts; None means all."""

    from_ms: int
    to_ms: int
    cluster: str | None = None
    consumer_group: str | None = None

    def is_for(self, row: dict[str, Any]) -> bool:
        if self.cluster is None and row["cluster"] == CANARY_CLUSTER:
            return False
        return self.cluster in (None, row["cluster"]) and self.consumer_group in (None, row["consumer_group"])


@dataclass
class Replayed:
    """The result. `transitions` are the alert rows of the span, `messages` the number of events with the warm-up."""

    pages: list[Page] = field(default_factory=list)
    transitions: list[dict[str, Any]] = field(default_factory=list)
    messages: int = 0
    first_ms: int | None = None


def replay(
    slices: Iterable[Slice], rulebook: Rulebook, asked: Asked, on_progress: Callable[[float], None] = lambda _: None
) -> Replayed:
    """Process the slices. Memory holds a slice, the state, and the transitions of the span."""
    stream, pages, replayed = Stream(rulebook), Pages(), Replayed()
    for part in slices:
        if part.messages and replayed.first_ms is None:
            replayed.first_ms = part.messages[0]["ingest_time_ms"]
        replayed.messages += len(part.messages)
        alerts = stream.work_through(part.messages).get("alerts", [])
        for row in sorted(filter(asked.is_for, alerts), key=lambda row: row["changed_at"]):
            pages.add(row)
            if asked.from_ms <= row["changed_at"] < asked.to_ms and len(replayed.transitions) < MOST_TRANSITIONS:
                replayed.transitions.append(row)
        on_progress(part.share)
    replayed.pages = pages.paged()
    return replayed


def report(outcomes: Sequence[Outcome], replayed: Replayed, asked: Asked) -> dict[str, Any]:
    """Return the result of a replay as JSON; times are ISO 8601."""
    return {
        "since": iso(asked.from_ms),
        "until": iso(asked.to_ms),
        "events": replayed.messages,
        "counts": count(outcomes),
        "pages": [_row(one) for one in outcomes],
    }


def _row(outcome: Outcome) -> dict[str, Any]:
    page = outcome.page
    return {
        "outcome": outcome.outcome,
        "kind": page.kind,
        "severity": page.severity,
        "cluster": page.cluster,
        "consumer_group": page.consumer_group,
        "topic": page.topic,
        "alert_id": page.alert_id,
        "replayed_at": None if outcome.replayed_ms is None else iso(outcome.replayed_ms),
        "sent_at": None if outcome.notified_ms is None else iso(outcome.notified_ms),
        "started_at": iso(page.started_ms),
        "summary": page.summary,
    }


def print_outcomes(report: dict[str, Any], format_: str) -> None:
    """Print the result as table, json or csv; csv has only the pages."""
    if format_ == "json":
        write_json(report)
    elif format_ == "csv":
        pages = report["pages"]
        write_csv(list(pages[0]) if pages else ["outcome"], pages)
    else:
        _print_table(report)


def _print_table(report: dict[str, Any]) -> None:
    counts = ", ".join(f"{number} {outcome}" for outcome, number in report["counts"].items())
    say(f"{report['since']} to {report['until']}, {report['events']} events including warm-up: {counts}.")
    if not report["pages"]:
        return
    table = Table(show_lines=True)
    table.add_column("page", no_wrap=True)
    table.add_column("time and summary", overflow="fold")
    for row in report["pages"]:
        outcome = Text(row["outcome"], style=STYLES[row["outcome"]])
        head = Text("\n").join([outcome, Text(row["kind"]), Text(row["severity"])])
        parts = [("replayed", row["replayed_at"]), ("sent", row["sent_at"])]
        times = ", ".join(f"{name} {at[:19].replace('T', ' ')} UTC" for name, at in parts if at)
        table.add_row(head, Text(f"{times} ({MEANINGS[row['outcome']]})\n{row['summary']}"))
    VisibleConsole().print(table)
