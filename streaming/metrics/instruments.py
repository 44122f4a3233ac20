"""Metrics and health of one process, `run` or `relay`."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import structlog
from pyspark.sql import SparkSession

from conf.settings import Settings
from streaming.logs.logs import count_lines
from streaming.metrics.batches import count_rows
from streaming.metrics.deliveries import Deliveries
from streaming.metrics.exporter import Exporter
from streaming.metrics.liveness import Liveness, listen, reasons_not_alive, reasons_not_ready
from streaming.metrics.names import CANARY_INTERVAL, LOG_LINES, RULES_TAKEN
from streaming.metrics.server import Endpoint, Server, read_token
from streaming.metrics.tables import TableMetrics
from streaming.queries import balance
from streaming.queries.events import RUN
from streaming.queries.rows import CLOCK_HEARD
from streaming.queries.written_batch import WrittenBatch

FOLLOWER = "relay"
"""Query label under which a separate relay exports the age of its last read of the table `alerts`."""

log = structlog.get_logger()


class Instruments:
    """Metrics and health endpoints, served until `close`. Failures are logged and do not affect the service."""

    def __init__(self, settings: Settings, expected: Sequence[str], *, key: str = "port") -> None:
        """`expected` are the names of the queries, `key` is the setting of the port. Raises SettingsError."""
        self._settings = settings
        self.tables = TableMetrics(settings.metrics.max_groups)
        self.exporter = Exporter(self.tables)
        self.deliveries = Deliveries(self.exporter)
        self.liveness = Liveness(self.exporter, expected)
        self.exporter.add(RULES_TAKEN, 0)
        self.exporter.set(CANARY_INTERVAL, settings.canary.interval_seconds)
        for level in ("warning", "error"):
            self.exporter.add(LOG_LINES, 0, level=level)
        count_lines(lambda level: self.exporter.add(LOG_LINES, level=level))
        endpoint = Endpoint(
            self.exporter.text, self.reasons_not_alive, self.reasons_not_ready, read_token(settings.metrics)
        )
        self._server = Server(settings.metrics, endpoint, key=key)

    @property
    def port(self) -> int:
        """Return the port of the metrics."""
        return self._server.port

    def begin(self, spark: SparkSession | None, *, runs_queries: bool, notifies: bool) -> None:
        """Listen to Spark before its queries start. `spark` is None in a separate relay, which exports no tables."""
        warehouse = self._settings.paths.warehouse
        if spark is not None:
            self._guard(lambda: listen(spark, self.liveness))
            self._guard(lambda: self.liveness.ask_jvm(spark))
        self.liveness.has_jvm = spark is not None
        if runs_queries:
            self.tables.begin(warehouse)
        if notifies:
            self._guard(lambda: self.deliveries.load(warehouse))

    def follow(self, name: str) -> Callable[[], None]:
        """Track reads of a table like a query of this name; call the result after each complete read."""
        self.liveness.started(name)
        return lambda: self.liveness.idled(name)

    def on_batch(self, batch: WrittenBatch) -> None:
        """Count a batch that is in the tables."""
        self._guard(lambda: count_rows(self.exporter, batch.rows))
        for clock in batch.rows.get(CLOCK_HEARD, ()):
            if clock["source"] != RUN:  # the clock events of `run` do not show a silent collector
                self.tables.note_clock(clock["cluster"], clock["newest_ms"])

    def take_rules(self) -> None:
        """Count a reload of rules or notification settings."""
        self.exporter.add(RULES_TAKEN)

    def reasons_not_alive(self) -> list[str]:
        return list(reasons_not_alive(self.liveness.signs(), self._settings.metrics.unhealthy_after_seconds))

    def reasons_not_ready(self) -> list[str]:
        return list(reasons_not_ready(self.liveness.signs(), self._settings.metrics.unready_after_seconds))

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


def run_instruments(settings: Settings, *, is_lasting: bool) -> AbstractContextManager[Instruments | None]:
    """Return the instruments of `run` if metrics are enabled and it runs until stopped. Raises SettingsError."""
    wanted = settings.metrics.enabled and is_lasting
    return Instruments(settings, [balance.NAME]) if wanted else nullcontext()


def relay_instruments(settings: Settings) -> AbstractContextManager[Instruments | None]:
    """Return the instruments of `relay` if metrics are enabled. Raises SettingsError."""
    return Instruments(settings, [FOLLOWER], key="relay_port") if settings.metrics.enabled else nullcontext()
