"""The alerts table as a stream: Spark's Delta source under the checkpoint `relay`, each batch handed to the relay.

A batch counts as done once the relay has its rows in memory. What the relay had not delivered when it died it finds in
the tables when it starts, so nothing hangs on the checkpoint but that new rows come once.
"""

import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from conf.settings import Settings
from schemas.tables import ALERTS
from streaming.oncall.transition import Transition, read_transition
from streaming.private_folder import make_checkpoints
from streaming.queries.warehouse import table_path
from streaming.readable_rows import read_rows

NAME = "relay"

Observe = Callable[[list[Transition]], None]

_ANOTHER = re.compile(r"DIFFERENT_DELTA_TABLE_READ|unexpected Delta table")


class AlertStreamError(RuntimeError):
    """The stream ended by itself, or is asked for a batch while it is being stopped."""


class AnotherTableError(AlertStreamError):
    """The checkpoint is of a table that is no longer there: its folder was moved away, or made anew."""


class AlertStream:
    """A running stream. `stop` ends it between two batches."""

    def __init__(self, spark: SparkSession, settings: Settings, version: int, observe: Observe) -> None:
        """A new checkpoint begins with the table's `version`; what is older the relay has read itself."""
        make_checkpoints(settings)
        self._observe = observe
        self._busy = threading.Lock()
        self._is_stopping = False
        alerts = (
            spark.readStream.format("delta")
            .option("startingVersion", version)
            .option("skipChangeCommits", "true")  # `balancewatch maintain` drops old rows; nothing new is in those
            .load(table_path(settings.paths.warehouse, ALERTS.name))
        )
        self._query: StreamingQuery = (
            alerts.writeStream.queryName(NAME)
            .option("checkpointLocation", str(checkpoint_of(settings)))
            .trigger(processingTime=f"{round(settings.oncall.poll_seconds * 1000)} milliseconds")
            .foreachBatch(self._hand_over)
            .start()
        )

    def check(self) -> None:
        """Raises AlertStreamError when it has ended by itself."""
        if not self._query.isActive:
            said = str(self._query.exception() or "the stream of the alerts ended")
            failure = AnotherTableError if _ANOTHER.search(said) else AlertStreamError
            raise failure(said.splitlines()[0])

    def drain(self, seconds: float) -> None:
        """Return when all rows that are in the table now are handed over, or the seconds are over."""
        thread = threading.Thread(target=self._work_through, daemon=True)
        thread.start()
        thread.join(seconds)

    def _work_through(self) -> None:
        with suppress(Exception):  # one that has ended: `check` says why
            self._query.processAllAvailable()

    def stop(self) -> None:
        with self._busy:
            self._is_stopping = True
        if self._query.isActive:
            self._query.stop()

    def _hand_over(self, batch: DataFrame, batch_id: int) -> None:
        with self._busy:
            if self._is_stopping:
                raise AlertStreamError(f"batch {batch_id} is left to the next start")
            self._observe(read_rows(ALERTS.name, batch.toArrow(), read_transition))


def checkpoint_of(settings: Settings) -> Path:
    return (settings.paths.checkpoints.expanduser() / NAME).resolve()


def discard_checkpoint(settings: Settings) -> str:
    """Where it was moved to. Nothing hangs on it (checkpoints/README.md)."""
    checkpoint = checkpoint_of(settings)
    moved_to = checkpoint.with_name(f"{NAME}_of_another_table_{time.time_ns() // 1_000_000}")
    checkpoint.rename(moved_to)
    return str(moved_to)
