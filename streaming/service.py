"""`balancewatch run`: one Spark session, both queries, the clock keeper; until stopped, done, or failed."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from conf.settings import Settings
from streaming.clock_keeper import ClockKeeper
from streaming.ingest.topics import create_topics
from streaming.queries import assignments, fault_items
from streaming.queries.rows import Rows
from streaming.queries.running import OnRows, RunningQuery, start_query
from streaming.queries.warehouse import DeltalakeWriter, SparkWriter, Writer
from streaming.session import start_spark

QUERIES = (fault_items, assignments)

log = structlog.get_logger()


class ServiceError(RuntimeError):
    """A query ended by itself. The message is its cause in a sentence."""


class Service:
    """The running queries. Use as a context manager: leaving it stops them after their batch in flight."""

    def __init__(
        self,
        settings: Settings,
        *,
        available_now: bool = False,
        on_rows: OnRows | None = None,
        jvm_log: Path | None = None,
    ) -> None:
        """Start everything. Raises KafkaUnreachableError, JarsError or SourceError when a part cannot be had."""
        self._on_rows = on_rows
        create_topics(settings.kafka)
        self.spark: SparkSession = start_spark(settings, jvm_log)
        self._keeper = None if available_now else ClockKeeper(settings)
        warehouse = settings.paths.warehouse
        is_spark = settings.queries.delta_writer == "spark"
        writer: Writer = SparkWriter(warehouse, self.spark) if is_spark else DeltalakeWriter(warehouse)
        self._running: list[RunningQuery] = [
            start_query(
                query.NAME,
                query.start_dataframe(self.spark, settings),
                settings,
                writer,
                available_now=available_now,
                on_rows=self._hear,
            )
            for query in QUERIES
        ]
        if self._keeper is not None:
            self._keeper.start()

    @property
    def queries(self) -> list[StreamingQuery]:
        """Spark's handles of the queries."""
        return [running.query for running in self._running]

    def _hear(self, name: str, batch_id: int, rows: Rows) -> None:
        if self._keeper is not None:
            self._keeper.listen(rows)
        if self._on_rows is not None:
            self._on_rows(name, batch_id, rows)

    def wait(self, stop: threading.Event, seconds: float | None = None) -> None:
        """Return when `stop` is set, `seconds` have passed, or all queries are done. Raises ServiceError."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not stop.wait(0.2):
            for query in self.queries:
                if not query.isActive and (error := query.exception()) is not None:
                    raise ServiceError(f"the query {query.name} failed: {_reason(error)}")
            if not any(query.isActive for query in self.queries):
                return
            if deadline is not None and time.monotonic() > deadline:
                return

    def wait_until_idle(self, seconds: float = 120.0) -> None:
        """Return when each query has worked through all that is in Kafka now."""
        threads = [threading.Thread(target=query.processAllAvailable, daemon=True) for query in self.queries]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds)

    def close(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()
        for running in self._running:
            if running.query.isActive:
                running.stop()
        self.spark.stop()

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def progress_logger() -> Callable[[str, int, Rows], None]:
    """An `on_rows` that logs what each batch wrote."""

    def report(name: str, batch_id: int, rows: Rows) -> None:
        written: dict[str, Any] = {table: len(of_table) for table, of_table in sorted(rows.items()) if of_table}
        if written:
            log.info("batch", query=name, batch_id=batch_id, **written)

    return report


def _reason(error: StreamingQueryException) -> str:
    """The last line of a Python traceback, or the JVM's first line, which name the cause."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    python = [line for line in lines if line.startswith(("StateError", "streaming.")) or "Error: " in line]
    return (python[-1] if python else lines[0] if lines else type(error).__name__)[:500]
