"""All instruments of one process, `run` or `relay`: what it says to Prometheus, and whether it is well."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import structlog
from pyspark.sql import SparkSession

from conf.location import is_store
from conf.settings import Settings
from streaming.logs import count_lines
from streaming.metrics.deliveries import Deliveries
from streaming.metrics.exporter import Exporter
from streaming.metrics.health import reasons_not_alive, reasons_not_ready
from streaming.metrics.health_names import LOG_LINES, RULES_TAKEN
from streaming.metrics.listener import listen
from streaming.metrics.server import Endpoint, Server, read_token
from streaming.metrics.verdict_names import CANARY_INTERVAL
from streaming.metrics.verdicts import Verdicts
from streaming.metrics.vitals import Vitals
from streaming.oncall import alert_stream
from streaming.queries import balance
from streaming.queries.rows import Rows

log = structlog.get_logger()


class Instruments:
    """Serves from when it is made until `close`. What fails in here is logged; the service goes on."""

    def __init__(self, settings: Settings, expected: Sequence[str], *, key: str = "port") -> None:
        """`expected` are the names of the process' queries, `key` the setting with its port. Raises SettingsError."""
        self._settings = settings
        self.exporter = Exporter()
        self.verdicts = Verdicts(self.exporter, settings.metrics.max_groups)
        self.deliveries = Deliveries(self.exporter, self.verdicts)
        self.vitals = Vitals(self.exporter, expected)
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
        """Where it is served."""
        return self._server.port

    def begin(self, spark: SparkSession | None, *, runs_queries: bool, tells_people: bool) -> None:
        """Spark is there, its queries are not yet: listen to it, and take in what the tables say.

        Without a Spark of its own a process is there once the tables are taken in.
        """
        warehouse = self._settings.paths.warehouse
        if spark is not None:
            self._guard(lambda: listen(spark, self.vitals))
            self._guard(lambda: self.vitals.ask_jvm(spark))
        self.vitals.has_jvm = spark is not None
        self._guard(lambda: self.verdicts.load(warehouse, runs_queries=runs_queries, tells_people=tells_people))
        if tells_people:
            self._guard(lambda: self.deliveries.load(warehouse))

    def hear(self, rows: Rows) -> None:
        """A batch is in the tables."""
        self._guard(lambda: self.verdicts.hear(rows))

    def take_rules(self) -> None:
        """Changed rules, or whom to tell, are in force."""
        self.exporter.add(RULES_TAKEN)

    def reasons_not_alive(self) -> list[str]:
        return list(reasons_not_alive(self.vitals.signs(), self._settings.metrics.hung_seconds))

    def reasons_not_ready(self) -> list[str]:
        return list(reasons_not_ready(self.vitals.signs(), self._settings.metrics.late_seconds))

    def close(self) -> None:
        count_lines(None)
        self.vitals.stop()
        self._server.close()

    def __enter__(self) -> "Instruments":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            log.error("metrics are incomplete", error=f"{type(error).__name__}: {error}"[:300])


def run_instruments(settings: Settings, *, is_lasting: bool) -> AbstractContextManager[Instruments | None]:
    """Those of `run`, where the settings have them and it does not end by itself. Raises SettingsError."""
    wanted = settings.metrics.enabled and is_lasting
    return Instruments(settings, [balance.NAME]) if wanted else nullcontext()


def relay_instruments(settings: Settings) -> AbstractContextManager[Instruments | None]:
    """Those of `relay`, where the settings have them. Raises SettingsError."""
    streams = [] if is_store(settings.paths.warehouse) else [alert_stream.NAME]
    return Instruments(settings, streams, key="relay_port") if settings.metrics.enabled else nullcontext()
