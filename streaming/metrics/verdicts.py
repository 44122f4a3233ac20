"""The product's verdicts as metrics: as the tables have them at the start, then as each batch changes them."""

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from schemas.contract import CODES
from schemas.events import EVENTS
from schemas.tables import TABLES
from streaming.history.store import History, WarehouseError
from streaming.metrics.brokers import Brokers
from streaming.metrics.exporter import Exporter
from streaming.metrics.folding import OTHER, Folding, clean
from streaming.metrics.groups import Groups
from streaming.metrics.health_names import EVENT_TIME_GAP, QUARANTINED, ROWS_WRITTEN
from streaming.metrics.incidents import Incidents
from streaming.metrics.totals import MOST_CLUSTERS
from streaming.metrics.verdict_names import FOLDED
from streaming.oncall.own_alerts import CANARY_CLUSTER, OWN_KINDS
from streaming.queries.rows import Rows
from streaming.queries.shard_clock import CLOCK_HEARD

Row = Mapping[str, Any]

NEWEST = {
    "assignments": "SELECT cluster, consumer_group, topic, broker_name, queue_id, verdict, planned_owner, "
    "observed_owners FROM assignments_now",
    "memberships": "SELECT cluster, consumer_group, broker_name, client_id, client_addr, change FROM memberships_now "
    "WHERE change IN ('JOINED', 'CHANGED')",
    "broker_health": "SELECT cluster, broker_name, unavailable_producers, producers FROM broker_health_now",
    "alerts": "SELECT incident_id, cluster, kind, severity, state, suppressed_by FROM alerts_now "
    "WHERE state <> 'RESOLVED'",
}
"""Table to the query for what of it holds now."""

log = structlog.get_logger()


class Verdicts:
    """Tell it of each batch's rows. What goes wrong here is logged and stops nothing."""

    def __init__(self, exporter: Exporter, max_groups: int) -> None:
        self._exporter = exporter
        self._clusters: Folding[str] = Folding(MOST_CLUSTERS)
        self._groups = Groups(exporter, self._clusters, max_groups)
        self._brokers = Brokers(exporter, self._clusters, max_groups)
        self._incidents = Incidents(exporter, self._clusters)
        self._ticks_ms: dict[str, int] = {}
        self._lock = threading.Lock()

    def load(self, warehouse: Path, *, runs_queries: bool, tells_people: bool) -> None:
        """What the tables say now.

        Only what this process hears the end of: alerts about the relay where it `tells_people`, all else where it
        `runs_queries`.
        """
        began = time.monotonic()
        tables = NEWEST if runs_queries else ("alerts",)
        try:
            history = History(warehouse)
            rows = {table: history.rows(NEWEST[table]) for table in tables}
        except WarehouseError:
            return  # a first start: there is nothing yet
        rows["alerts"] = [row for row in rows["alerts"] if (tells_people if row["kind"] in OWN_KINDS else runs_queries)]
        with self._lock:
            self._hear(rows)
        log.debug("metrics loaded", seconds=round(time.monotonic() - began, 2))

    def hear(self, rows: Rows) -> None:
        """A batch is in the tables. Called by several threads, one a query."""
        with self._lock:
            self._hear(rows)
        for table, of_table in rows.items():
            if of_table and table in TABLES:
                self._exporter.add(ROWS_WRITTEN, len(of_table), table=table)
        for row in rows.get("quarantine", ()):
            topic = row["topic"] if row["topic"] in EVENTS else OTHER
            for code in {reason.partition(":")[0] for reason in row["reasons"]}:
                self._exporter.add(QUARANTINED, topic=topic, reason=code if code in CODES else OTHER)
        for row in rows.get(CLOCK_HEARD, ()):
            with self._lock:
                self._tick(row["cluster"], row["newest_ms"])

    def hear_alerts(self, rows: Sequence[Row]) -> None:
        """Rows of the alerts table that are in no batch."""
        with self._lock:
            self._incidents.hear(rows)

    def _hear(self, rows: Mapping[str, Sequence[Row]]) -> None:
        self._groups.hear(rows.get("assignments", ()), rows.get("memberships", ()))
        self._brokers.hear(rows.get("broker_health", ()))
        self._incidents.hear(rows.get("alerts", ()))
        for kind, folded in (
            ("groups", self._groups.folded),
            ("brokers", self._brokers.folded),
            ("clusters", self._clusters.folded),
        ):
            self._exporter.set(FOLDED, folded, kind=kind)

    def _tick(self, cluster: str, newest_ms: int) -> None:
        """Our time is that of the clock events; it grows old by itself, so it is reckoned when it is asked for."""
        if cluster == CANARY_CLUSTER or not self._clusters.is_named(cluster):
            return
        if cluster not in self._ticks_ms:
            self._exporter.follow(
                EVENT_TIME_GAP, lambda: time.time() - self._ticks_ms[cluster] / 1000, cluster=clean(cluster)
            )
        self._ticks_ms[cluster] = max(newest_ms, self._ticks_ms.get(cluster, newest_ms))
