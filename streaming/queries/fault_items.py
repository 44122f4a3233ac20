"""The fault_items query: every producer's FaultItem of every broker, by the table of its own release.

    Kafka ─► combine (mapInArrow: check, run-length a producer and broker) ─► one broker a key (transformWithState)
          ─► rows ─► Delta

A batch costs brokers times producers after the combine, not sends. Clock events go to the brokers they speak for.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from conf.settings import Settings
from schemas.contract import MAX_AHEAD_MS, MAX_BYTES
from schemas.decode import LISTED_DECODERS, decode
from schemas.events import CLOCKS, SEND_LATENCIES
from streaming.queries.chunk import Reject
from streaming.queries.rows import OUTPUT, Rows, pack_rows
from streaming.queries.shard_rows import quarantine_row
from streaming.queries.source import read_messages
from udfs.attempts import Attempts, AttemptsBuilder
from udfs.broker_board import Board, Flip, Health

NAME = "fault_items"
TOPICS = (SEND_LATENCIES, CLOCKS)

COMBINED = T.StructType(
    [
        T.StructField("cluster", T.StringType()),
        T.StructField("broker_name", T.StringType()),
        T.StructField("pack", T.BinaryType()),
    ]
)

CUT_SKEW_MS = 60_000

REJECTS = ("", "")
"""The key bad messages ride under; no event can have it, for its state is never touched."""


class Pack(msgspec.Struct, array_like=True, gc=False):
    """What one Arrow batch holds for one broker: its producers' attempts, its newest tick, or bad messages."""

    attempts: list[Attempts] = []
    tick_ms: int | None = None
    rejects: list[tuple[str, int, Reject]] = []


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Pack).decode
_encode_board = msgspec.json.Encoder().encode
_decode_board = msgspec.json.Decoder(Board).decode


def start_dataframe(spark: SparkSession, settings: Settings) -> DataFrame:
    """The streaming DataFrame: one row a table and broker (rows.OUTPUT)."""
    combined = read_messages(spark, settings, TOPICS).mapInArrow(combine, COMBINED)
    return combined.groupBy("cluster", "broker_name").transformWithState(
        statefulProcessor=FaultItemsProcessor(
            settings.rules.fault_item_idle_ms, may_be_cut=settings.queries.max_offsets_per_trigger > 0
        ),
        outputStructType=OUTPUT,
        outputMode="Update",
        timeMode="None",
    )


def combine(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function for mapInArrow: messages in, one pack a broker and Kafka partition out."""
    combiner = Combiner()
    for batch in batches:
        combiner.add(batch)
    keys, packs = zip(*combiner.packs(), strict=True) if combiner.has_packs() else ((), ())
    yield pa.RecordBatch.from_arrays(
        [
            pa.array([cluster for cluster, _ in keys], pa.string()),
            pa.array([broker_name for _, broker_name in keys], pa.string()),
            pa.array([_encode(pack) for pack in packs], pa.binary()),
        ],
        names=COMBINED.names,
    )


class Combiner:
    """Run-lengths a Kafka partition's part of a batch, by broker and producer."""

    def __init__(self) -> None:
        self._builders: dict[tuple[str, str, str, str], AttemptsBuilder] = {}
        self._ticks: dict[tuple[str, str], int] = {}
        self._rejects: list[tuple[str, int, Reject]] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in an Arrow batch of one topic and partition, or of several."""
        topics, longest = batch.column("topic"), pc.max(pc.binary_length(batch.column("value"))).as_py()
        if pc.all(pc.equal(topics, SEND_LATENCIES)).as_py() and (longest or 0) <= MAX_BYTES:
            self._add_send_latencies(batch)
        else:
            for index, topic in enumerate(topics.to_pylist()):
                self._add_one(topic, batch, index)

    def _add_send_latencies(self, batch: pa.RecordBatch) -> None:
        """The hot path: a million times a million. Anything but a good event takes `_add_one`."""
        read, builders = LISTED_DECODERS[SEND_LATENCIES].decode, self._builders
        latest_ms = pc.min(batch.column("ingest_time_ms")).as_py() + MAX_AHEAD_MS
        for index, value in enumerate(batch.column("value").to_pylist()):
            try:
                event = read(value)
            except (msgspec.MsgspecError, TypeError, UnicodeDecodeError, RecursionError):
                self._add_one(SEND_LATENCIES, batch, index)
                continue
            time_ms = event.event_time_ms
            if time_ms > latest_ms:
                self._add_one(SEND_LATENCIES, batch, index)
                continue
            key = (event.cluster, event.broker_name, event.client_id, event.client_version)
            builder = builders.get(key)
            if builder is None:
                builder = builders[key] = AttemptsBuilder(event.client_id, event.client_version)
            quick, latency_ms = builder.last_quick, event.latency_ms
            if (
                quick is not None
                and latency_ms < builder.quick_below_ms
                and event.isolation is False
                and event.reachable is not False
                and time_ms >= quick.to_ms
            ):
                quick.to_ms, quick.latency_ms = time_ms, latency_ms
            else:
                builder.add(time_ms, latency_ms, event.isolation, event.reachable is not False)

    def _add_one(self, topic: str, batch: pa.RecordBatch, index: int) -> None:
        partition, offset, ingest_time_ms, value = (
            batch.column(name)[index].as_py() for name in ("partition", "offset", "ingest_time_ms", "value")
        )
        event, reasons = decode(topic, value, ingest_time_ms)
        if reasons and topic == CLOCKS:
            return  # the assignments query reads the same message, and keeps it
        if reasons:
            self._rejects.append((topic, partition, Reject(offset, ingest_time_ms, value, reasons)))
        elif topic == CLOCKS:
            for broker_name in event.brokers_asked:
                place = (event.cluster, broker_name)
                self._ticks[place] = max(self._ticks.get(place, 0), event.event_time_ms)
        else:
            key = (event.cluster, event.broker_name, event.client_id, event.client_version)
            builder = self._builders.setdefault(key, AttemptsBuilder(event.client_id, event.client_version))
            builder.add(event.event_time_ms, event.latency_ms, event.isolation, event.reachable is not False)

    def has_packs(self) -> bool:
        return bool(self._builders or self._ticks or self._rejects)

    def packs(self) -> Iterator[tuple[tuple[str, str], Pack]]:
        """Each broker's pack, and one of the bad messages."""
        by_broker: dict[tuple[str, str], Pack] = {}
        for (cluster, broker_name, _, _), builder in self._builders.items():
            by_broker.setdefault((cluster, broker_name), Pack()).attempts.append(builder.attempts)
        for place, tick_ms in self._ticks.items():
            by_broker.setdefault(place, Pack()).tick_ms = tick_ms
        yield from by_broker.items()
        if self._rejects:
            yield REJECTS, Pack(rejects=self._rejects)


class FaultItemsProcessor(StatefulProcessor):
    """Carries packs to a broker's Board and its flips out; one read and one write of state a broker and batch."""

    def __init__(self, idle_ms: int, may_be_cut: bool) -> None:
        self._idle_ms, self._may_be_cut = idle_ms, may_be_cut

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._board = handle.getValueState("board", T.StructType([T.StructField("json", T.StringType())]))

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803  # Spark's names
        packs = [_decode(row.pack) for row in rows]
        if tuple(key) == REJECTS:
            rejects = (quarantine_row(*reject) for pack in packs for reject in pack.rejects)
            yield from pack_rows({"quarantine": list(rejects)})
            return
        value = self._board.get()
        if value is None and not any(pack.attempts for pack in packs):
            return  # a tick for a broker nobody has sent to
        board = _decode_board(value[0]) if value else Board()
        yield from pack_rows(
            advance_board(board, packs, key[0], key[1], idle_ms=self._idle_ms, may_be_cut=self._may_be_cut)
        )
        self._board.update((_encode_board(board).decode(),))

    def close(self) -> None:
        """Nothing is held."""


def advance_board(
    board: Board, packs: list[Pack], cluster: str, broker_name: str, *, idle_ms: int, may_be_cut: bool
) -> Rows:
    """Rows of one broker's batch. With `may_be_cut` a tick far ahead of the attempts beside it is left alone.

    maxOffsetsPerTrigger cuts the clock topic elsewhere than the attempts; the next tick will do.
    """
    attempts = [of for pack in packs for of in pack.attempts]
    newest_ms = max((of.steps[-1].to_ms for of in attempts), default=None)
    tick_ms = max((pack.tick_ms for pack in packs if pack.tick_ms is not None), default=None)
    if may_be_cut and tick_ms and newest_ms and tick_ms > newest_ms + CUT_SKEW_MS:
        tick_ms = None
    flips, health = board.advance(attempts, tick_ms, idle_ms)
    place = {"cluster": cluster, "broker_name": broker_name}
    return {
        "fault_items": [place | _fault_item_row(flip) for flip in flips],
        "broker_health": [place | _broker_health_row(row) for row in health],
    }


def _fault_item_row(flip: Flip) -> dict[str, Any]:
    return {
        "client_id": flip.client_id,
        "client_version": flip.client_version,
        "current_latency_ms": flip.current_latency_ms,
        "isolation": flip.isolation,
        "start_timestamp": flip.start_timestamp_ms,
        "available": flip.available,
        "changed_at": flip.changed_at_ms,
    }


def _broker_health_row(health: Health) -> dict[str, Any]:
    return {
        "unavailable_producers": health.unavailable_producers,
        "producers": health.producers,
        "unavailable_until": health.unavailable_until_ms,
        "changed_at": health.changed_at_ms,
    }
