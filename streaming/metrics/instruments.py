"""Metrics and health of one process, `run` or `relay`."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import structlog
from pyspark.sql import SparkSession

from conf.settings import Settings
from streaming.logs.logs import count_lines
from streaming.metrics.batches import count_rows
from streaming.metrics.deliveries import Deliveries
from streaming.metrics.exporter import Exporter
from streaming.metrics.liveness import Liveness, listen
from streaming.metrics.names import CANARY_INTERVAL, LOG_LINES, RULES_TAKEN
from streaming.metrics.server import Server
from streaming.metrics.tables import TableMetrics
from streaming.queries.events import RUN
from streaming.queries.rows import CLOCK_HEARD
from streaming.queries.written_batch import WrittenBatch

log = structlog.get_logger()


class Instruments:
    """Metrics and health endpoints, served until `close`. Failures are logged and do not affect the service."""

    def __init__(self, settings: Settings, query: str, *, key: str = "port") -> None:
        """`query` is the name of the query, `key` the setting of the port. Raises SettingsError."""
        self._warehouse = settings.paths.warehouse
        self.tables = TableMetrics(settings.metrics.max_groups)
        self.exporter = Exporter(self.tables)
        self.deliveries = Deliveries(self.exporter)
        self.liveness = Liveness(self.exporter, [query])
        self.exporter.series(CANARY_INTERVAL).set(settings.canary.interval_seconds)
        for level in ("warning", "error"):
            self.exporter.series(LOG_LINES, level=level)
        count_lines(lambda level: self.exporter.series(LOG_LINES, level=level).inc())
        self._server = Server(
            settings.metrics,
            self.exporter.text,
            lambda: self.liveness.reasons_not_alive(settings.metrics.unhealthy_after_seconds),
            lambda: self.liveness.reasons_not_ready(settings.metrics.unready_after_seconds),
            key=key,
        )
        self.port = self._server.port
        """The port of the metrics."""

    def begin(self, spark: SparkSession | None, *, notifies: bool) -> None:
        """Listen to Spark before its query starts. `spark` is None in a separate relay, which exports no tables."""
        self.liveness.has_jvm = spark is not None
        if spark is not None:
            self._guard(lambda: listen(spark, self.liveness))
            self._guard(lambda: self.liveness.ask_jvm(spark))
            self.tables.begin(self._warehouse)
        if notifies:
            self._guard(lambda: self.deliveries.load(self._warehouse))

    def on_batch(self, batch: WrittenBatch) -> None:
        """Count a batch that is in the tables."""
        self._guard(lambda: count_rows(self.exporter, batch.rows))
        for clock in batch.rows.get(CLOCK_HEARD, ()):
            if clock["source"] != RUN:  # the clock events of `run` do not show a silent collector
                self.tables.note_clock(clock["cluster"], clock["newest_ms"])

    def take_rules(self) -> None:
        """Count a reload of rules or notification settings."""
        self.exporter.series(RULES_TAKEN).inc()

    def close(self) -> None:
        count_lines(None)
        self.liveness.stop()
        self._server.close()
        self.tables.close()

    def __enter__(self) -> "Instruments":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            log.error("metrics update failed", error=f"{type(error).__name__}: {error}"[:300])


def instruments_of(
    settings: Settings, query: str, *, key: str = "port", is_lasting: bool = True
) -> AbstractContextManager[Instruments | None]:
    """Return the instruments of a process that runs until stopped, if metrics are enabled. Raises SettingsError."""
    return Instruments(settings, query, key=key) if settings.metrics.enabled and is_lasting else nullcontext()
