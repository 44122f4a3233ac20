"""Start, batches and end of a streaming query."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import structlog
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from conf.settings import Settings
from schemas.events import SEND_LATENCIES
from streaming.queries.batch_limits import Limits, limit_of, note_limit
from streaming.queries.planned import publish_plan
from streaming.queries.rest import Rest, TickSeen
from streaming.queries.shard_clock import CLOCK_HEARD
from streaming.queries.written_batch import WrittenBatch
from streaming.system.known_error import BalancewatchError
from streaming.system.private_folder import make_checkpoints
from streaming.warehouse.rows import Rows, unpack_rows
from streaming.warehouse.writer import Writer, append_rows

OnBatch = Callable[[WrittenBatch], None]
"""Called with each batch after it is in Delta."""

COMMIT_SECONDS = 30.0
"""Interval at which a stop that waits for Spark's commit of the last batch is logged."""

log = structlog.get_logger()


class RestHearer(Protocol):
    """Listener for pauses, which Spark counts as batch time.

    `rests` gets the longest possible duration of a pause that begins, `rested` the duration of one that ended. `name`
    is the query's.
    """

    def rests(self, name: str, seconds: float) -> None: ...
    def rested(self, name: str, batch_id: int, seconds: float) -> None: ...


class StoppingError(BalancewatchError):
    """A batch was not started because the query stops; the next start runs it."""


class Sink:
    """foreachBatch's function: the batch's one action brings its rows to the driver, then each table is appended to.

    The action also commits all state, so a batch that fails afterwards runs again from the state before it and
    puts out the same rows.
    """

    def __init__(
        self,
        name: str,
        checkpoint: Path,
        writer: Writer,
        on_batch: OnBatch | None,
        limits: Limits = ((0, 0),),
        *,
        is_once: bool = False,
        rest_s: float = 0.0,
        hearer: RestHearer | None = None,
    ) -> None:
        """`rest_s` is the longest rest after a batch that had little to do, `limits` are the batches' own."""
        self._name, self._checkpoint, self._writer = name, checkpoint, writer
        self._on_batch, self._limits, self._is_once = on_batch, limits, is_once
        self._hearer, self._busy = hearer, threading.Lock()
        self._is_stopping = False
        self._rest, self._is_awake = Rest(0.0 if is_once else rest_s), threading.Event()
        self._app_id = ""
        self._written: int | None = None

    def drain(self, is_active: Callable[[], bool] = lambda: True) -> None:
        """Start no further batch, and return when Spark has committed the current one or the query is inactive.

        A written batch without a commit would run again under the rules of the next start. Its rows would be skipped as
        duplicates, and could differ from its state.
        """
        self._is_awake.set()
        with self._busy:
            self._is_stopping = True
        reported = began = time.monotonic()
        while not self._is_noted() and is_active():
            time.sleep(0.01)
            if time.monotonic() - reported >= COMMIT_SECONDS:
                reported = time.monotonic()
                log.warning(
                    "stop delayed until Spark commits the last batch",
                    query=self._name,
                    batch_id=self._written,
                    seconds=round(reported - began),
                )
        if not self._is_noted():
            log.warning(
                "last batch not committed, the next start repeats it and skips its rows",
                query=self._name,
                batch_id=self._written,
            )

    def _is_noted(self) -> bool:
        return self._written is None or (self._checkpoint / "commits" / str(self._written)).is_file()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        with self._busy:
            if self._is_stopping:
                raise StoppingError(f"stopping: batch {batch_id} runs at the next start")
            began_s = time.time()
            rows, read = self._write(batch, batch_id)
            self._written = batch_id
        self._rest_after(began_s, batch_id, rows, read)

    def _write(self, batch: DataFrame, batch_id: int) -> tuple[Rows, Mapping[str, int]]:
        """Return the batch's rows, and the number of messages read by topic."""
        self._app_id = self._app_id or self._read_app_id()
        context = batch.sparkSession.sparkContext
        limit = limit_of(self._limits, batch_id)
        read = publish_plan(context, self._checkpoint, batch_id, limit, is_once=self._is_once)
        rows = unpack_rows(batch.toArrow())
        versions = append_rows(self._writer, rows, self._app_id, batch_id)
        if self._on_batch is not None:
            self._on_batch(WrittenBatch(self._name, batch_id, rows, versions))
        return rows, read

    def _rest_after(self, began_s: float, batch_id: int, rows: Rows, read: Mapping[str, int]) -> None:
        ticks = [
            TickSeen(row["cluster"], row["collector"] or row["source"], row["ingest_ms"])
            for row in rows.get(CLOCK_HEARD, ())
        ]
        rest_s = self._rest.after(began_s, time.time(), sum(read.values()), read.get(SEND_LATENCIES, 0), ticks)
        if rest_s > 0:
            self._rest_for(rest_s, batch_id)

    def _rest_for(self, rest_s: float, batch_id: int) -> None:
        began = time.monotonic()
        if self._hearer is not None:
            self._hearer.rests(self._name, rest_s)
        self._is_awake.wait(rest_s)
        if self._hearer is not None:
            self._hearer.rested(self._name, batch_id, time.monotonic() - began)

    def stay_awake(self) -> None:
        """Pause after no further batch."""
        self._is_awake.set()

    def may_rest(self) -> None:
        self._is_awake.clear()

    def _read_app_id(self) -> str:
        """The query's id lives in its checkpoint: a new checkpoint, whose batch ids start anew, is a new app."""
        metadata: dict[str, Any] = json.loads((self._checkpoint / "metadata").read_text())
        return f"balancewatch-{self._name}-{metadata['id']}"


@dataclass(frozen=True)
class RunningQuery:
    """A started query and its sink."""

    query: StreamingQuery
    sink: Sink

    def stop(self) -> None:
        """Stop between two batches; a batch interrupted inside Python would log a long Java stack trace."""
        self.sink.drain(lambda: bool(self.query.isActive))
        self.query.stop()


def start_query(
    name: str,
    output: DataFrame,
    settings: Settings,
    writer: Writer,
    *,
    available_now: bool = False,
    on_batch: OnBatch | None = None,
    hearer: RestHearer | None = None,
) -> RunningQuery:
    """Start a query under its checkpoint."""
    checkpoint = make_checkpoints(settings) / name
    limits = note_limit(checkpoint, settings.queries.max_offsets_per_trigger)
    rest_s = settings.queries.rest_ms / 1000
    sink = Sink(name, checkpoint, writer, on_batch, limits, is_once=available_now, rest_s=rest_s, hearer=hearer)
    stream = (
        output.writeStream.queryName(name)
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(sink)
    )
    if available_now:
        stream = stream.trigger(availableNow=True)
    else:
        stream = stream.trigger(processingTime=f"{settings.queries.trigger_ms} milliseconds")
    return RunningQuery(stream.start(), sink)
