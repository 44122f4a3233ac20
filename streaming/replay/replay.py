"""Replay of recorded events by the query's code under other rules, and the pages it would send."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from rich.text import Text

from conf.location import Location
from schemas.tables import ALERT_DELIVERIES, ALERTS
from streaming.replay.stream import Message, Stream
from streaming.terminal.printing import print_table
from streaming.text.output import say, write_csv, write_json
from streaming.text.times import iso, to_ms
from streaming.warehouse.readable_rows import open_written, read_files, read_table, whole
from streaming.warehouse.warehouse_error import NotWrittenError
from udfs.alerts.kinds import KIND_FACTS
from udfs.alerts.rulebook import CANARY_CLUSTER, Rulebook


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


SUBJECT = ("alert_id", "incident_id", "kind", "severity", "cluster", "consumer_group", "topic", "summary")
COLUMNS = (*SUBJECT, "state", "inhibited_by", "started_at")
"""Columns of the alerts table that a page is made of."""


class Pages:
    """Incidents built from rows of the alerts table, oldest first. Resolved ones that never paged are dropped."""

    def __init__(self) -> None:
        self._known: dict[str, Page] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        page = self._known.get(row["incident_id"])
        if page is None:
            page = Page(**{name: row[name] for name in SUBJECT}, started_ms=row["started_at"])
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


@dataclass(frozen=True)
class Asked:
    """The span [from, to) in epoch ms, and a filter on alerts; None means all."""

    from_ms: int
    to_ms: int
    cluster: str | None = None
    consumer_group: str | None = None

    def is_for(self, row: Mapping[str, Any]) -> bool:
        if self.cluster is None and row["cluster"] == CANARY_CLUSTER:
            return False
        return self.cluster in (None, row["cluster"]) and self.consumer_group in (None, row["consumer_group"])


def read_pages(warehouse: Location, asked: Asked) -> list[Page]:
    """Return the pages sent until the end of the span, from alerts and the delivery log. Raises NotWrittenError.

    The relay's alerts about its receivers are no pages, and neither is an incident that the log has as not notified
    (silence, limit, no route). Damaged files are skipped, which DuckDB cannot.
    """
    keep_contract = whole(ALERTS)

    def read(row: Mapping[str, Any]) -> dict[str, Any]:
        return {**keep_contract(row), **{name: to_ms(row[name]) for name in ("started_at", "changed_at")}}

    of_rules = pc.field("kind").isin(sorted(KIND_FACTS))
    pages = Pages()
    for row in read_table(warehouse, ALERTS, of_rules, (*COLUMNS, "changed_at", "batch_id"), read=read):
        if row["changed_at"] < asked.to_ms and asked.is_for(row):
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
    return set(rows["incident_id"].to_pylist()) - set(rows.filter(is_notified)["incident_id"].to_pylist())


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


@dataclass
class Replayed:
    """The result. `transitions` are the alert rows of the span, `messages` the number of events with the warm-up."""

    pages: list[Page] = field(default_factory=list)
    transitions: list[dict[str, Any]] = field(default_factory=list)
    messages: int = 0
    first_ms: int | None = None


def replay(slices: Iterable[list[Message]], rulebook: Rulebook, asked: Asked) -> Replayed:
    """Process the slices. Memory holds a slice, the state, and the transitions of the span."""
    stream, pages, replayed = Stream(rulebook), Pages(), Replayed()
    for messages in slices:
        if messages and replayed.first_ms is None:
            replayed.first_ms = messages[0]["ingest_time_ms"]
        replayed.messages += len(messages)
        alerts = stream.work_through(messages).get("alerts", [])
        for row in sorted(filter(asked.is_for, alerts), key=lambda row: row["changed_at"]):
            pages.add(row)
            if asked.from_ms <= row["changed_at"] < asked.to_ms and len(replayed.transitions) < MOST_TRANSITIONS:
                replayed.transitions.append(row)
    replayed.pages = pages.paged()
    return replayed


def print_outcomes(outcomes: Sequence[Outcome], replayed: Replayed, asked: Asked, format_: str) -> None:
    """Print the result as table, json or csv; csv has only the pages. Times are ISO 8601."""
    pages = [_row(one) for one in outcomes]
    since, until, counts = iso(asked.from_ms), iso(asked.to_ms), count(outcomes)
    if format_ == "json":
        write_json({"since": since, "until": until, "events": replayed.messages, "counts": counts, "pages": pages})
    elif format_ == "csv":
        write_csv(list(pages[0]) if pages else ["outcome"], pages)
    else:
        numbers = ", ".join(f"{number} {outcome}" for outcome, number in counts.items())
        say(f"{since} to {until}, {replayed.messages} events including warm-up: {numbers}.")
        if pages:
            print_table(pages, {"page": _head, "time and summary": _times_and_summary})


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


def _head(row: Mapping[str, Any]) -> Text:
    outcome = Text(row["outcome"], style=STYLES[row["outcome"]])
    return Text("\n").join([outcome, Text(row["kind"]), Text(row["severity"])])


def _times_and_summary(row: Mapping[str, Any]) -> str:
    parts = [("replayed", row["replayed_at"]), ("sent", row["sent_at"])]
    times = ", ".join(f"{name} {at[:19].replace('T', ' ')} UTC" for name, at in parts if at)
    return f"{times} ({MEANINGS[row['outcome']]})\n{row['summary']}"
