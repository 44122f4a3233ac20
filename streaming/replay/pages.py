"""Pages, and the comparison of those of two runs.

An incident pages once: with its first FIRING row that is not inhibited and more severe than `info`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from conf.location import Location
from schemas.tables import ALERT_DELIVERIES, ALERTS
from streaming.text.times import to_ms
from streaming.warehouse.readable_rows import open_written, read_files, read_table, whole
from streaming.warehouse.warehouse_error import NotWrittenError
from udfs.alerts.kinds import KIND_FACTS
from udfs.alerts.rulebook import CANARY_CLUSTER

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
        is_one = self.alert_id == other.alert_id
        return is_one and self._begins_before_end_of(other) and other._begins_before_end_of(self)

    def _begins_before_end_of(self, other: "Page") -> bool:
        return other.ended_ms is None or self.started_ms <= other.ended_ms


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
    pages = Pages()
    for row in read_table(warehouse, ALERTS, condition, NEEDED, read=_in_ms):
        if row["changed_at"] < to_ms_:
            pages.add(row)
    unreported = _read_unreported(warehouse)
    return [page for page in pages.paged() if page.incident_id not in unreported]


def _in_ms(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with times in epoch ms. Raises ValueError for a row that breaks its contract."""
    return {**whole(ALERTS)(row), **{name: to_ms(row[name]) for name in ("started_at", "changed_at")}}


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
    replayed: Page | None
    notified: Page | None

    @property
    def page(self) -> Page:
        page = self.replayed or self.notified
        assert page is not None  # noqa: S101  # one of them is there
        return page


def compare(replayed: Sequence[Page], notified: Sequence[Page], from_ms: int, to_ms_: int) -> list[Outcome]:
    """Return the pages of [from, to), oldest first; pages of overlapping incidents are the same."""
    outcomes, left = [], list(notified)
    for page in replayed:
        match = next((other for other in left if other.overlaps(page)), None)
        if match is not None:
            left.remove(match)
        outcomes.append(Outcome("new" if match is None else "same", page, match))
    outcomes += [Outcome("gone", None, page) for page in left]

    def is_in(page: Page | None) -> bool:
        return page is not None and page.paged_ms is not None and from_ms <= page.paged_ms < to_ms_

    listed = [one for one in outcomes if is_in(one.replayed) or is_in(one.notified)]
    return sorted(listed, key=lambda one: (one.page.paged_ms, one.page.incident_id))


def count(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Return the number of each outcome."""
    counts = {"same": 0, "new": 0, "gone": 0}
    for one in outcomes:
        counts[one.outcome] += 1
    return counts
