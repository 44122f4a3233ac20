"""Metrics of the Delta tables: at a scrape, a collector queries the tables that changed since the last query.

The tables are the memory. Kept here are the newest answers and each cluster's clock.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import structlog
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from conf.location import Location
from schemas.tables import TABLES
from streaming.metrics.names import METRICS
from streaming.store.current import BACKLOG_SQL
from streaming.store.store import History
from streaming.warehouse.warehouse_error import NotWrittenError
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.alerts.static_labels import MATCHED, LabelRules, pick_static_labels
from udfs.groups.queue_state import DOUBLE_CONSUMED, MISPLACED, NOT_CONSUMED, NOT_JUDGED, OK, UNKNOWN, UNOWNED

Row = Mapping[str, Any]
Subject = tuple[str, str]
"""A cluster and a name in it."""

Figures = dict[tuple[str, tuple[str, ...]], int]
"""A subject's values by gauge and by the labels that do not name the subject."""

Sample = tuple[str, Mapping[str, str], float]

Known = tuple[tuple[str, str], ...]
"""Names and values of what static labels match on."""

CACHE_SECONDS = 5.0
"""Interval between two reads of the tables, however many scrapes ask."""

WAIT_SECONDS = 5.0
"""Longest wait of a scrape for the tables; after it, the scrape has the previous answer."""

MOST_CLUSTERS = 100
"""Limit on clusters with series."""

MOST_CLOCKS = 1_000
"""Limit on clusters whose clock is kept: those of the newest clock events."""

AHEAD_MS = 60_000
"""Limit on the clock skew of a collector; clock events further in the future are ignored here."""

OTHER = "other"
"""The label value of all names beyond a limit. A real name "other" is added to them."""

LABELS = {metric.name: metric.labels for metric in METRICS}

VERDICTS = (OK, UNOWNED, NOT_CONSUMED, DOUBLE_CONSUMED, MISPLACED, NOT_JUDGED, UNKNOWN)

GAUGES = (
    "balancewatch_queues",
    "balancewatch_members",
    "balancewatch_client_ids",
    "balancewatch_group_backlog_messages",
    "balancewatch_unavailable_producers",
    "balancewatch_producers",
    "balancewatch_groups",
    "balancewatch_series_limited",
    "balancewatch_incidents",
    "balancewatch_event_time_lag_seconds",
    "balancewatch_table_age_seconds",
)
"""The gauges of this collector."""

_REAL = f"cluster <> '{CANARY_CLUSTER}'"
_INCIDENT = "cluster, kind, severity, state, coalesce(inhibited_by, '') <> '' AS is_inhibited"

QUERIES = {
    # A closed queue has no planned owner any more; a deleted group leaves only closed queues.
    "assignments": f"""
        SELECT cluster, consumer_group, epoch_ms(max(changed_at)) AS newest_ms,
               bool_and(verdict = '{NOT_JUDGED}' AND coalesce(planned_owner, '') = ''
                        AND coalesce(len(observed_owners), 0) = 0) AS is_closed,
               {", ".join(f"count(*) FILTER (verdict = '{verdict}') AS {verdict}" for verdict in VERDICTS)}
        FROM assignments_now WHERE {_REAL} GROUP BY cluster, consumer_group""",
    "memberships": """
        SELECT cluster, consumer_group, max(channels) AS channels, max(client_ids) AS client_ids
        FROM (SELECT cluster, consumer_group, count(DISTINCT client_addr) AS channels,
                     count(DISTINCT client_id) AS client_ids
              FROM members GROUP BY cluster, consumer_group, broker_name)
        GROUP BY cluster, consumer_group""",
    "backlogs": f"""
        SELECT cluster, consumer_group, {BACKLOG_SQL} AS backlog
        FROM backlogged_queues GROUP BY cluster, consumer_group""",
    "broker_health": f"""
        SELECT cluster, broker_name, unavailable_producers, producers FROM broker_health_now
        WHERE {_REAL} AND producers > 0""",
    # A past state counts 0, so that an incident that ends is seen to end.
    "alerts": f"""
        SELECT * EXCLUDE is_open, sum(is_open) AS incidents
        FROM (SELECT {_INCIDENT}, 0 AS is_open FROM alerts
              UNION ALL SELECT {_INCIDENT}, 1 FROM alerts_now)
        WHERE {_REAL} AND state <> 'RESOLVED' GROUP BY ALL""",
}
"""Table to the query of its metrics."""

log = structlog.get_logger()


class TableReader:
    """One table's query, `sql`: `rows` is the newest answer and `read_at` the time at which it was current."""

    def __init__(self, warehouse: Location, table: str, sql: str) -> None:
        self.table, self.sql = table, sql
        self.rows: Sequence[Row] = ()
        self.read_at = time.monotonic()
        self._warehouse = warehouse
        self._history: History | None = None
        self._failure = self._answered = ""

    def read(self) -> None:
        """Query the table if it or the query changed. A failure is logged once and leaves the previous rows."""
        began = time.monotonic()
        try:
            if self._history is None or self._history.refresh() or self._answered != self.sql:
                self._history, sql = self._history or History(self._warehouse, [TABLES[self.table]]), self.sql
                self.rows, self._answered = self._history.rows(sql), sql
        except NotWrittenError:
            self._history, self.rows = None, ()
        except Exception as error:
            self._history = None
            failure = f"{type(error).__name__}: {error}"[:300]
            if failure != self._failure:
                log.error("table not read for metrics", table=self.table, error=failure)
            self._failure = failure
            return
        self._failure, self.read_at = "", began


class TableMetrics(Collector):
    """The gauges of the tables for one registry; nothing before `begin`."""

    def __init__(self, max_groups: int, cache_seconds: float = CACHE_SECONDS) -> None:
        self._cache_seconds = cache_seconds
        self._readers: tuple[TableReader, ...] = ()
        self._reading: threading.Thread | None = None
        self._began_at = -cache_seconds
        self._lock = threading.Lock()
        self._max_groups = max_groups
        self._clocks_ms: dict[str, int] = {}
        self.label(())

    def label(self, rules: LabelRules) -> None:
        """Add these static labels to the series of clusters, groups, brokers and incidents."""
        matched = {label for matchers, _ in rules for label in matchers} - {"cluster", "kind"}
        columns = ", ".join([*sorted(matched), _INCIDENT])
        self._queries = QUERIES | {"alerts": QUERIES["alerts"].replace(_INCIDENT, columns)}
        self._labels_of = lru_cache(10_000)(lambda known: pick_static_labels(rules, dict(known)))
        for reader in self._readers:
            reader.sql = self._queries[reader.table]

    def begin(self, warehouse: Location) -> None:
        self._readers = tuple(TableReader(warehouse, table, sql) for table, sql in self._queries.items())

    def note_clock(self, cluster: str, newest_ms: int) -> None:
        """Keep the time of a collector's clock event."""
        now_ms = int(time.time() * 1000)
        if newest_ms <= now_ms + AHEAD_MS:
            self._clocks_ms[cluster] = max(min(newest_ms, now_ms), self._clocks_ms.pop(cluster, newest_ms))
            if len(self._clocks_ms) > MOST_CLOCKS:
                del self._clocks_ms[next(iter(self._clocks_ms))]

    def close(self) -> None:
        """Wait for a read in progress, within limits."""
        if self._reading is not None:
            self._reading.join(WAIT_SECONDS)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families = {
            metric.name: GaugeMetricFamily(metric.name, metric.says, labels=metric.labels)
            for metric in METRICS
            if metric.name in GAUGES
        }
        with self._lock:
            self._read()
            for gauge, labels, value in self._samples():
                known = tuple((name, labels[name]) for name in MATCHED if labels.get(name, OTHER) != OTHER)
                static = self._labels_of(known) if "cluster" in labels else {}
                families[gauge].add_sample(gauge, {**static, **labels}, value)
        yield from families.values()

    def _read(self) -> None:
        """Read the tables in a thread, which outlasts this scrape if the storage hangs."""
        if self._reading is None or not self._reading.is_alive():
            if time.monotonic() - self._began_at < self._cache_seconds:
                return
            self._began_at = time.monotonic()
            self._reading = threading.Thread(target=self._read_all, name="tables", daemon=True)
            self._reading.start()
            self._reading.join(WAIT_SECONDS)

    def _read_all(self) -> None:
        for reader in self._readers:
            reader.read()

    def _samples(self) -> Iterator[Sample]:
        rows: dict[str, Sequence[Row]] = dict.fromkeys(QUERIES, ())
        for reader in self._readers:
            rows[reader.table] = reader.rows
            yield "balancewatch_table_age_seconds", {"table": reader.table}, time.monotonic() - reader.read_at
        groups = _groups(rows["assignments"], rows["memberships"], rows["backlogs"])
        brokers = _brokers(rows["broker_health"])
        full = {cluster for cluster, _ in (*groups, *brokers)}
        full |= {row["cluster"] for row in rows["alerts"] if row["incidents"]}
        empty = {row["cluster"] for table in ("assignments", "alerts") for row in rows[table]} - full
        named = {*[*sorted(full), *sorted(empty)][:MOST_CLUSTERS]}
        starved = {
            subject
            for subject, figures in groups.items()
            if any(figures["balancewatch_queues", (verdict,)] for verdict in (UNOWNED, NOT_CONSUMED, DOUBLE_CONSUMED))
        }
        urgent_first = [*sorted(starved), *sorted(groups.keys() - starved)]
        folded = {"clusters": len(full - named)}
        for kind, figures, subjects in (("groups", groups, urgent_first), ("brokers", brokers, sorted(brokers))):
            wanted = [subject for subject in subjects if subject[0] in named]
            chosen = {*wanted[: self._max_groups]}
            folded[kind] = len(wanted) - len(chosen)
            yield from _sums(figures, named, chosen)
        for kind, count in folded.items():
            yield "balancewatch_series_limited", {"kind": kind}, count
        sizes = Counter({row["cluster"]: 0 for row in rows["assignments"]})
        sizes.update(cluster for cluster, _ in groups)
        yield from (("balancewatch_groups", {"cluster": cluster}, sizes[cluster]) for cluster in sizes.keys() & named)
        yield from _incidents(rows["alerts"], named, self._labels_of)
        yield from self._event_time_lags(rows["assignments"], named & full)

    def _event_time_lags(self, assignments: Sequence[Row], clusters: Collection[str]) -> Iterator[Sample]:
        """Yield the age of each cluster's clock, or of its newest verdict before the first clock event."""
        now_ms = time.time() * 1000
        newest_ms: dict[str, int] = {}
        for row in assignments:
            if row["newest_ms"] <= now_ms + AHEAD_MS:
                newest_ms[row["cluster"]] = max(row["newest_ms"], newest_ms.get(row["cluster"], 0))
        newest_ms |= dict(self._clocks_ms)
        for cluster in newest_ms.keys() & clusters:
            seconds = max(0.0, now_ms - newest_ms[cluster]) / 1000
            yield "balancewatch_event_time_lag_seconds", {"cluster": cluster}, seconds


def _groups(assignments: Sequence[Row], memberships: Sequence[Row], backlogs: Sequence[Row]) -> dict[Subject, Figures]:
    queues = {(row["cluster"], row["consumer_group"]): row for row in assignments}
    members = {(row["cluster"], row["consumer_group"]): row for row in memberships}
    behind = {(row["cluster"], row["consumer_group"]): row["backlog"] for row in backlogs}
    groups: dict[Subject, Figures] = {}
    for subject in members.keys() | {subject for subject, row in queues.items() if not row["is_closed"]}:
        counts, channels = queues.get(subject, {}), members.get(subject, {})
        groups[subject] = {("balancewatch_queues", (verdict,)): counts.get(verdict, 0) for verdict in VERDICTS} | {
            ("balancewatch_members", ()): channels.get("channels", 0),
            ("balancewatch_client_ids", ()): channels.get("client_ids", 0),
        }
        if subject in behind:
            groups[subject]["balancewatch_group_backlog_messages", ()] = behind[subject]
    return groups


def _brokers(rows: Sequence[Row]) -> dict[Subject, Figures]:
    """Return the figures of each broker for which a producer keeps a FaultItem."""
    return {
        (row["cluster"], row["broker_name"]): {
            ("balancewatch_unavailable_producers", ()): row["unavailable_producers"],
            ("balancewatch_producers", ()): row["producers"],
        }
        for row in rows
    }


def _sums(figures: Mapping[Subject, Figures], named: Collection[str], chosen: Collection[Subject]) -> Iterator[Sample]:
    """Yield the figures of the chosen subjects, and the sums of the others by cluster."""
    sums: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for (cluster, name), values in figures.items():
        labels = cluster if cluster in named else OTHER, name if (cluster, name) in chosen else OTHER
        for (gauge, more), value in values.items():
            sums[gauge, (*labels, *more)] += value
    for (gauge, own), sum_ in sums.items():
        yield gauge, dict(zip(LABELS[gauge], own, strict=True)), sum_


def _incidents(
    rows: Sequence[Row], named: Collection[str], labels_of: Callable[[Known], Mapping[str, str]]
) -> Iterator[Sample]:
    """Yield the open incidents by their labels; 0 for labels that past incidents had."""
    counts: Counter[Known] = Counter()
    for row in rows:
        is_named = row["cluster"] in named
        if is_named or row["incidents"]:
            labels = {name: row[name] for name in ("kind", "severity", "state")}
            labels["cluster"] = row["cluster"] if is_named else OTHER
            labels["is_inhibited"] = str(row["is_inhibited"]).lower()
            known = tuple((name, row[name] or "") for name in MATCHED if is_named and name in row)
            counts[*labels_of(known).items(), *labels.items()] += row["incidents"]
    yield from (("balancewatch_incidents", dict(labels), count) for labels, count in counts.items())
