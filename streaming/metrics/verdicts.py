"""The product's verdicts as metrics: as the tables have them at the start, then as each batch changes them."""

import math
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from deltalake.exceptions import DeltaError

from conf.location import Location
from schemas.contract import CODES
from schemas.events import EVENTS
from schemas.tables import TABLES
from streaming.metrics.brokers import Brokers
from streaming.metrics.cardinality import OTHER, clean
from streaming.metrics.clusters import Clusters
from streaming.metrics.exporter import Exporter
from streaming.metrics.groups import Groups
from streaming.metrics.health_names import (
    EVENT_TIME_GAP,
    QUARANTINED,
    QUARANTINED_MESSAGES,
    ROWS_WRITTEN,
)
from streaming.metrics.incidents import Incidents
from streaming.metrics.verdict_names import FOLDED
from streaming.queries.events import RUN
from streaming.queries.rows import CLOCK_HEARD
from streaming.store.store import History
from streaming.text.times import to_ms
from streaming.warehouse.rows import Rows
from streaming.warehouse.warehouse_error import NotWrittenError, WarehouseError
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.alerts.self_kinds import RELAY_KINDS

Row = Mapping[str, Any]

NEWEST = {
    "assignments": "SELECT cluster, consumer_group, topic, broker_name, queue_id, verdict, planned_owner, "
    "observed_owners, changed_at FROM assignments_now",
    "memberships": "SELECT cluster, consumer_group, broker_name, client_id, client_addr, change FROM memberships_now "
    "WHERE change IN ('JOINED', 'CHANGED')",
    "broker_health": "SELECT cluster, broker_name, unavailable_producers, producers FROM broker_health_now",
    "alerts": "SELECT incident_id, cluster, kind, severity, state, inhibited_by FROM alerts_now "
    "WHERE state <> 'RESOLVED'",
}
"""Table to the query of its current rows."""

AHEAD_MS = 60_000
"""Most that a collector's clock may be ahead of this machine's; later events are ignored here."""

log = structlog.get_logger()


class Verdicts:
    """Updates the metrics from each batch's rows. Failures are logged."""

    def __init__(self, exporter: Exporter, max_groups: int) -> None:
        self._exporter = exporter
        self._clusters = Clusters()
        self._clusters.when_lost(self._lose)
        self._groups = Groups(exporter, self._clusters, max_groups)
        self._brokers = Brokers(exporter, self._clusters, max_groups)
        self._incidents = Incidents(exporter, self._clusters)
        self._ticks_ms: dict[str, int] = {}
        self._lock = threading.Lock()

    def load(self, warehouse: Location, *, runs_queries: bool, notifies: bool) -> None:
        """Load the current rows that this process will also see resolved.

        These are alerts about the relay if it `notifies`, and all other rows if it `runs_queries`.
        """
        began = time.monotonic()
        tables = NEWEST if runs_queries else ("alerts",)
        rows = {table: _newest(warehouse, table) for table in tables}
        rows["alerts"] = [row for row in rows["alerts"] if (notifies if row["kind"] in RELAY_KINDS else runs_queries)]
        with self._lock:
            self._update(rows)
            for row in rows.get("assignments", ()):  # no clock is as old as what it made
                self._tick(row["cluster"], to_ms(row["changed_at"]))
        log.debug("metrics loaded", seconds=round(time.monotonic() - began, 2))

    def update(self, rows: Rows) -> None:
        """Count a batch that is in the tables. Called by several threads, one per query."""
        with self._lock:
            self._update(rows)
        for table, of_table in rows.items():
            if of_table and table in TABLES:
                self._exporter.add(ROWS_WRITTEN, len(of_table), table=table)
        for row in rows.get("quarantine", ()):
            topic = row["topic"] if row["topic"] in EVENTS else OTHER
            self._exporter.add(QUARANTINED_MESSAGES, topic=topic)
            for code in {reason.partition(":")[0] for reason in row["reasons"]}:
                self._exporter.add(QUARANTINED, topic=topic, reason=code if code in CODES else OTHER)
        for row in rows.get(CLOCK_HEARD, ()):
            if row["source"] != RUN:  # ours go on when every collector is dead
                with self._lock:
                    self._tick(row["cluster"], row["newest_ms"])

    def update_alerts(self, rows: Sequence[Row]) -> None:
        """Count rows of the alerts table that are in no batch."""
        with self._lock:
            self._incidents.update(rows)

    def _update(self, rows: Mapping[str, Sequence[Row]]) -> None:
        self._groups.update(rows.get("assignments", ()), rows.get("memberships", ()))
        self._brokers.update(rows.get("broker_health", ()))
        self._incidents.update(rows.get("alerts", ()))
        for kind, folded in (
            ("groups", self._groups.folded),
            ("brokers", self._brokers.folded),
            ("clusters", self._clusters.folded),
        ):
            self._exporter.set(FOLDED, folded, kind=kind)

    def _tick(self, cluster: str, newest_ms: int) -> None:
        """Our time is that of the clock events; it grows old by itself, so it is reckoned when it is asked for."""
        now_ms = int(time.time() * 1000)
        if cluster == CANARY_CLUSTER or not self._clusters.is_named(cluster) or newest_ms > now_ms + AHEAD_MS:
            return
        newest_ms = min(newest_ms, now_ms)
        is_new = cluster not in self._ticks_ms
        self._ticks_ms[cluster] = max(newest_ms, self._ticks_ms.get(cluster, newest_ms))
        if is_new:
            self._exporter.follow(EVENT_TIME_GAP, lambda: self._gap(cluster), cluster=clean(cluster))

    def _gap(self, cluster: str) -> float:
        """Return the age in seconds; NaN for a cluster that is being dropped."""
        newest_ms = self._ticks_ms.get(cluster)
        return math.nan if newest_ms is None else time.time() - newest_ms / 1000

    def _lose(self, cluster: str) -> None:
        if self._ticks_ms.pop(cluster, None) is not None:
            self._exporter.drop(EVENT_TIME_GAP, cluster=clean(cluster))


def _newest(warehouse: Location, table: str) -> list[dict[str, Any]]:
    """Return the table's current rows; none if it does not exist or cannot be read."""
    try:
        return History(warehouse, [TABLES[table]]).rows(NEWEST[table])
    except NotWrittenError:
        return []
    except (WarehouseError, DeltaError, OSError) as error:
        log.error("table not loaded into metrics", table=table, error=str(error)[:300])
        return []
