"""Metrics and health of one process, `run` or `relay`."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext

import structlog

from conf.location import Location
from conf.oncall import CANARY
from conf.settings import Settings
from schemas.contract import CODES
from schemas.events import EVENTS
from schemas.tables import TABLES
from streaming.logs.logs import count_lines
from streaming.metrics.exporter import Exporter
from streaming.metrics.liveness import Liveness
from streaming.metrics.server import Server
from streaming.metrics.tables import OTHER, TableMetrics
from streaming.queries.events import RUN
from streaming.queries.rows import CLOCK_HEARD
from streaming.queries.written_batch import WrittenBatch
from streaming.relay.canary import read_canaries
from streaming.relay.receivers.posting import Answer
from streaming.relay.relay import RelayListener
from streaming.warehouse.readable_rows import Row
from streaming.warehouse.rows import Rows
from streaming.warehouse.warehouse_error import WarehouseError

log = structlog.get_logger()


class Instruments:
    """Metrics and health endpoints, served until `close`. Failures are logged and do not affect the service."""

    def __init__(self, settings: Settings, query: str, *, key: str = "port") -> None:
        """`query` is the name of the query, `key` the setting of the port. Raises SettingsError."""
        self._warehouse, self._settings = settings.paths.warehouse, settings.metrics
        self.tables = TableMetrics(settings.metrics.max_groups)
        self.tables.label(settings.label_rules)
        self.exporter = Exporter(self.tables)
        self.deliveries = Deliveries(self.exporter)
        self.liveness = Liveness(self.exporter, query)
        self.exporter.series("balancewatch_canary_interval_seconds").set(settings.canary.interval_seconds)
        for level in ("warning", "error"):
            self.exporter.series("balancewatch_log_lines_total", level=level)
        count_lines(lambda level: self.exporter.series("balancewatch_log_lines_total", level=level).inc())
        self._server = Server(
            settings.metrics,
            self.exporter.text,
            self.reasons_not_alive,
            lambda: self.liveness.reasons_not_ready(settings.metrics.unready_after_seconds),
            key=key,
        )
        self.port = self._server.port
        """The port of the metrics."""

    def reasons_not_alive(self) -> Iterator[str]:
        """Yield the reasons to restart the process."""
        yield from self.liveness.reasons_not_alive(self._settings.unhealthy_after_seconds)

    def begin(self, listen: Callable[[Liveness], None] | None, *, notifies: bool) -> None:
        """Listen to Spark before its query starts. A separate relay has no Spark and exports no tables."""
        self.liveness.has_jvm = listen is not None
        if listen is not None:
            self._guard(lambda: listen(self.liveness))
            self.tables.begin(self._warehouse)
        if notifies:
            self._guard(lambda: self.deliveries.load(self._warehouse))

    def on_batch(self, batch: WrittenBatch) -> None:
        self._guard(lambda: count_rows(self.exporter, batch.rows))
        for clock in batch.rows.get(CLOCK_HEARD, ()):
            if clock["source"] != RUN:  # the clock events of `run` do not show a silent collector
                self.tables.note_clock(clock["cluster"], clock["newest_ms"])

    def take_rules(self, settings: Settings) -> None:
        self.tables.label(settings.label_rules)
        self.exporter.series("balancewatch_rules_taken_total").inc()

    def close(self) -> None:
        count_lines(None)
        self.liveness.stop()
        self._server.close()
        self.tables.close()

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            log.error("metrics update failed", error=f"{type(error).__name__}: {error}"[:300])


def instruments_of(
    settings: Settings, query: str, *, key: str = "port", is_lasting: bool = True
) -> AbstractContextManager[Instruments | None]:
    """Return the instruments of a process that runs until stopped, if metrics are enabled. Raises SettingsError."""
    is_wanted = settings.metrics.enabled and is_lasting
    return closing(Instruments(settings, query, key=key)) if is_wanted else nullcontext()


class Deliveries(RelayListener):
    """The listener of the metrics. The canary has separate metrics."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._canary_at = time.time()
        self._due: set[str] = set()

    def load(self, warehouse: Location) -> None:
        """Load the time of the newest canary; without one, the age counts from now."""
        try:
            known = read_canaries(warehouse, 1)
        except WarehouseError:
            known = []
        self._canary_at = known[-1]["delivered_at"].timestamp() if known else time.time()
        self._exporter.series("balancewatch_canary_age_seconds").set_function(lambda: time.time() - self._canary_at)

    def answered(self, receiver: str, answer: Answer, latency_ms: int) -> None:
        if receiver != CANARY:
            self._exporter.series(
                "balancewatch_delivery_attempts_total", receiver=receiver, outcome=answer.verdict
            ).inc()
            self._exporter.series("balancewatch_delivery_attempt_seconds", receiver=receiver).observe(latency_ms / 1000)

    def decided(self, records: Sequence[Row]) -> None:
        for record in records:
            seconds = max(0, record["delivered_at"] - record["changed_at"]) / 1000
            is_delivered, receiver = record["outcome"] == "DELIVERED", record["receiver"]
            if receiver == CANARY:
                if is_delivered and record["status"] == "firing":
                    self._canary_at = record["delivered_at"] / 1000
                    self._exporter.series("balancewatch_canary_latency_seconds").observe(seconds)
                continue
            self._exporter.series("balancewatch_delivery_decisions_total", outcome=record["outcome"]).inc()
            if is_delivered:
                self._exporter.series("balancewatch_delivery_seconds", receiver=receiver).observe(seconds)

    def owes(self, due: Mapping[str, int]) -> None:
        for receiver in self._due - due.keys():
            self._exporter.drop("balancewatch_notifications_pending", receiver=receiver)
        self._due = set(due) - {CANARY}
        for receiver in self._due:
            self._exporter.series("balancewatch_notifications_pending", receiver=receiver).set(due[receiver])

    def restarted(self) -> None:
        self._exporter.series("balancewatch_relay_restarts_total").inc()


def count_rows(exporter: Exporter, rows: Rows) -> None:
    """Count a batch's rows by table, and its quarantined messages by topic and reason."""
    for table, written in rows.items():
        if written and table in TABLES:
            exporter.series("balancewatch_rows_written_total", table=table).inc(len(written))
    for row in rows.get("quarantine", ()):
        topic = row["topic"] if row["topic"] in EVENTS else OTHER
        exporter.series("balancewatch_quarantined_messages_total", topic=topic).inc()
        for code in {reason.partition(":")[0] for reason in row["reasons"]}:
            exporter.series(
                "balancewatch_quarantined_total", topic=topic, reason=code if code in CODES else OTHER
            ).inc()
