"""Start, batches, rests and end of a streaming query."""

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple, Protocol

import structlog
from pyspark import SparkContext
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from conf.settings import Settings
from schemas.events import SEND_LATENCIES
from schemas.tables import TABLES
from streaming.queries.checkpoint import (
    Checkpoint,
    CheckpointSync,
    Limits,
    app_id_of,
    checkpoint_of,
    limit_of,
    note_limit,
    read_batch,
)
from streaming.queries.rows import CLOCK_HEARD
from streaming.queries.waiting import PLAN_PROPERTY, Planned
from streaming.queries.written_batch import WrittenBatch
from streaming.system.known_error import BalancewatchError
from streaming.system.private_folder import make_checkpoints
from streaming.warehouse.rows import Rows, unpack_rows
from streaming.warehouse.writer import DeltalakeWriter, append_rows

BUSY = 100.0
"""Events a second from which on there is no rest."""

SENDS_S = 2.0
"""Longest rest if there are sends: FaultItems change between clock events."""

UNKNOWN_S, SOON_S = 1.0, 0.25
"""The rest while no interval of clock events is known, and if one is overdue."""

MARGIN_S = 0.05
"""How long after its time a clock event is in Kafka."""

EARLIER_S = 0.005
"""How much earlier to wake for the next clock event after one was there: how long it has waited is not known. MARGIN_S
until the first one is missed."""

KEPT = 6
"""Clock events of one source that its interval is taken from."""

OVERDUE_ROUNDS = 3
"""Missed rounds after which a source no longer counts."""


class TickSeen(NamedTuple):
    """A clock event of a batch; `at_ms` is Kafka's time of it."""

    cluster: str
    source: str
    at_ms: int


class Rest:
    """How long to rest after a batch that had little to do: until the next clock event is due.

    One batch for each poll round is enough for a quiet cluster. If events come fast, or nothing waits for a clock
    event, the next batch begins at once or soon. Times are seconds of this machine's clock, except those of clock
    events.
    """

    def __init__(self, most_s: float) -> None:
        """`most_s` is the longest rest; 0 is none."""
        self._most_s = most_s
        self._ticks: dict[tuple[str, str], deque[int]] = {}
        self._apart_s: float | None = None  # how far this machine's clock is ahead of Kafka's, as far as known
        self._step_s = MARGIN_S
        self._is_missed = False
        self._last_s: float | None = None

    def after(self, began_s: float, now_s: float, events: int, sends: int, ticks: Iterable[TickSeen]) -> float:
        """Return the seconds to rest after a batch that began at `began_s` and read `events`, `sends` among them."""
        for tick in ticks:
            known = self._ticks.setdefault(tick[:2], deque(maxlen=KEPT))
            if not known or tick.at_ms > known[-1]:
                known.append(tick.at_ms)
                self._note(began_s - tick.at_ms / 1000)
        passed_s = now_s - self._last_s if self._last_s is not None else 0.0
        self._last_s = now_s
        if self._most_s <= 0 or passed_s <= 0 or events / passed_s >= BUSY:
            return 0.0
        most_s = min(self._most_s, SENDS_S) if sends else self._most_s
        next_s = self._next_tick_s(now_s)
        self._is_missed = next_s is not None and next_s < now_s
        return min(most_s, UNKNOWN_S if next_s is None else max(next_s + MARGIN_S - now_s, SOON_S))

    def _note(self, waited_s: float) -> None:
        """Note a clock event that the batch had, this long after Kafka's time of it."""
        if self._apart_s is None or waited_s < self._apart_s:
            self._apart_s = waited_s
        elif self._is_missed:
            self._apart_s, self._step_s = self._apart_s + MARGIN_S, EARLIER_S
        else:
            self._apart_s -= self._step_s
        self._is_missed = False

    def _next_tick_s(self, now_s: float) -> float | None:
        """Return when the next clock event of any source is due in Kafka; None if no interval is known."""
        apart_s = self._apart_s or 0.0
        found = []
        for key, times in list(self._ticks.items()):
            if len(times) < 2:
                continue
            every_s = median(after - before for before, after in pairwise(times)) / 1000
            due_s = times[-1] / 1000 + apart_s + every_s
            if now_s > due_s + OVERDUE_ROUNDS * every_s:
                del self._ticks[key]
            else:
                found.append(due_s)
        return min(found, default=None)


def plan_of(offsets: dict[tuple[str, int], int], limit: int | None) -> Planned:
    """Return the plan of a batch that reads these numbers of offsets under maxOffsetsPerTrigger.

    0 is no limit. With None the limit is unknown, and the batch may have been cut. Spark rounds each partition's share
    down, and gives every partition with a backlog at least one offset.
    """
    places = frozenset(place for place, count in offsets.items() if count > 0)
    is_cut = limit is None or 0 < limit <= sum(offsets[place] for place in places) + len(places)
    return Planned(is_cut, places if is_cut else frozenset())


def publish_plan(
    context: SparkContext, checkpoint: Checkpoint, batch_id: int, limit: int | None, *, is_once: bool = False
) -> dict[str, int]:
    """Publish the plan of a batch to its workers (balance.published_plan); return its offsets by topic.

    `limit` is the one it was planned under. For an unreadable checkpoint nothing is published (work_through).
    """
    counts: Counter[str] = Counter()
    try:
        offsets = read_batch(checkpoint, batch_id)
        for (topic, _), count in offsets.items():
            counts[topic] += count
        planned = plan_of(offsets, limit)
        text = json.dumps([planned.is_cut, sorted(planned.places), is_once])
    except (OSError, ValueError) as error:
        log.warning("batch plan not read", batch_id=batch_id, reason=str(error))
        text = ""
    context.setLocalProperty(PLAN_PROPERTY, text)
    return dict(counts)


OnBatch = Callable[[WrittenBatch], None]
"""Called with each batch after it is in Delta."""

COMMIT_SECONDS = 30.0
"""Interval at which a stop that waits for Spark's commit of the last batch is logged."""

log = structlog.get_logger()


class RestListener(Protocol):
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
        checkpoint: Checkpoint,
        writer: DeltalakeWriter,
        on_batch: OnBatch | None,
        limits: Limits = ((0, 0),),
        *,
        is_once: bool = False,
        is_synced: bool = True,
        rest_s: float = 0.0,
        rest_listener: RestListener | None = None,
    ) -> None:
        """`rest_s` is the longest rest after a batch that had little to do, `limits` are the batches' own.

        With `is_synced` what a batch starts from survives a power cut; in a bucket it always does.
        """
        self._name, self._checkpoint, self._writer = name, checkpoint, writer
        self._on_batch, self._limits, self._is_once = on_batch, limits, is_once
        self._rest_listener, self._busy = rest_listener, threading.Lock()
        self._rest, self._is_stopping = Rest(0.0 if is_once else rest_s), threading.Event()
        self._app_id = ""
        self._sync = CheckpointSync(checkpoint) if is_synced and isinstance(checkpoint, Path) else None
        self._written: int | None = None
        self.busy_since: float | None = None
        """When the current batch began to be written, by the monotonic clock; None between batches."""

    def drain(self, is_active: Callable[[], bool] = lambda: True) -> None:
        """Start no further batch, and return when Spark has committed the current one or the query is inactive.

        A written batch without a commit would run again under the rules of the next start. Its rows would be skipped as
        duplicates, and could differ from its state.
        """
        self._is_stopping.set()  # also ends a rest
        with self._busy:
            pass  # the current batch is written
        reported = began = time.monotonic()
        last = {"query": self._name, "batch_id": self._written}
        while not self._is_noted() and is_active():
            time.sleep(0.01)
            if time.monotonic() - reported >= COMMIT_SECONDS:
                reported = time.monotonic()
                log.warning("stop delayed until Spark commits the last batch", **last, seconds=round(reported - began))
        if not self._is_noted():
            log.warning("last batch not committed, the next start repeats it and skips its rows", **last)

    def _is_noted(self) -> bool:
        return self._written is None or (self._checkpoint / "commits" / str(self._written)).is_file()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        with self._busy:
            if self._is_stopping.is_set():
                raise StoppingError(f"stopping: batch {batch_id} runs at the next start")
            began_s, self.busy_since = time.time(), time.monotonic()
            rows, read = self._write(batch, batch_id)
            self._written, self.busy_since = batch_id, None
        clocks = rows.get(CLOCK_HEARD, ())
        ticks = [TickSeen(row["cluster"], row["collector"] or row["source"], row["ingest_ms"]) for row in clocks]
        rest_s = self._rest.after(began_s, time.time(), sum(read.values()), read.get(SEND_LATENCIES, 0), ticks)
        if rest_s > 0:
            began = time.monotonic()
            if self._rest_listener is not None:
                self._rest_listener.rests(self._name, rest_s)
            self._is_stopping.wait(rest_s)
            if self._rest_listener is not None:
                self._rest_listener.rested(self._name, batch_id, time.monotonic() - began)

    def _write(self, batch: DataFrame, batch_id: int) -> tuple[Rows, Mapping[str, int]]:
        """Return the batch's rows, and the number of messages read by topic."""
        self._app_id = self._app_id or app_id_of(self._name, self._checkpoint)
        context, limit = batch.sparkSession.sparkContext, limit_of(self._limits, batch_id)
        read = publish_plan(context, self._checkpoint, batch_id, limit, is_once=self._is_once)
        rows = unpack_rows(batch.toArrow())
        if self._sync is not None and rows.keys() & TABLES.keys():
            self._sync.sync()
        append_rows(self._writer, rows, self._app_id, batch_id)
        if self._on_batch is not None:
            self._on_batch(WrittenBatch(self._name, batch_id, rows))
        return rows, read


@dataclass(frozen=True)
class RunningQuery:
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
    writer: DeltalakeWriter,
    *,
    available_now: bool = False,
    on_batch: OnBatch | None = None,
    rest_listener: RestListener | None = None,
) -> RunningQuery:
    make_checkpoints(settings)
    checkpoint = checkpoint_of(name, settings)
    queries = settings.queries
    sink = Sink(
        name,
        checkpoint,
        writer,
        on_batch,
        note_limit(checkpoint, queries.max_offsets_per_trigger),
        is_once=available_now,
        is_synced=queries.sync,
        rest_s=queries.rest_ms / 1000,
        rest_listener=rest_listener,
    )
    stream = output.writeStream.queryName(name).outputMode("update").option("checkpointLocation", str(checkpoint))
    if available_now:
        stream = stream.trigger(availableNow=True)
    else:
        stream = stream.trigger(processingTime=f"{queries.trigger_ms} milliseconds")
    return RunningQuery(stream.foreachBatch(sink).start(), sink)
