"""The fault_items query: every producer's FaultItem of every broker, by the table of its own release.

    Kafka ─► combine (mapInArrow: check, run-length a producer and broker) ─► one broker a key (transformWithState)
          ─► rows ─► Delta

A batch costs brokers times producers after the combine, not sends. Clock events go to the brokers they speak for. Each
cluster has a key of its own too, where its producers are judged together and alerts begin and end.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from conf.settings import Settings
from schemas.events import CLOCKS, SEND_LATENCIES
from streaming.queries.chunk import safe_time_ms
from streaming.queries.combiner import COMBINED, REJECTS, Combiner, Pack, combine, decode_pack
from streaming.queries.output import OUTPUT, pack_rows
from streaming.queries.planned import Planned, told_plan
from streaming.queries.producers_aside import advance_or_set_aside
from streaming.queries.rows import Rows
from streaming.queries.shard_clock import CLOCK_MISSED_MS, CLOCK_WANTED
from streaming.queries.shard_rows import alert_row, quarantine_row
from streaming.queries.source import read_messages
from streaming.queries.worker_heap import freeze_modules
from streaming.rulebook import rulebook
from udfs.broker_board import Board, Flip, Health
from udfs.broker_findings import judge_fleet
from udfs.fleet import Fleet
from udfs.forgotten_broker import forget_items, forget_of_fleet
from udfs.rulebook import Rulebook
from udfs.rules import Rules
from udfs.unasked_boards import LastRows, close_unasked, note_asked
from udfs.waiting_sends import drop_oldest, end_drop, tell_drop, time_of_log

__all__ = ["NAME", "REJECTS", "TOPICS", "Combiner", "Pack", "advance_board", "advance_fleet", "start_dataframe"]

NAME = "fault_items"
TOPICS = (SEND_LATENCIES, CLOCKS)

CUT_SKEW_MS = 60_000

_encode = msgspec.json.Encoder().encode
_decode_board = msgspec.json.Decoder(Board).decode
_decode_fleet = msgspec.json.Decoder(Fleet).decode


def start_dataframe(spark: SparkSession, settings: Settings) -> DataFrame:
    """The streaming DataFrame: one row a table and key (rows.OUTPUT)."""
    combined = read_messages(spark, settings, TOPICS).mapInArrow(combine, COMBINED)
    return combined.groupBy("cluster", "broker_name").transformWithState(
        statefulProcessor=FaultItemsProcessor(rulebook(settings), settings.queries.max_offsets_per_trigger),
        outputStructType=OUTPUT,
        outputMode="Update",
        timeMode="None",
    )


class FaultItemsProcessor(StatefulProcessor):
    """Carries packs to a broker's Board or a cluster's Fleet, and rows out: one read and one write of state a key."""

    def __init__(self, rules: Rulebook, limit: int) -> None:
        self._rules, self._limit = rules, limit

    def init(self, handle: StatefulProcessorHandle) -> None:
        freeze_modules()
        self._state = handle.getValueState("board", T.StructType([T.StructField("json", T.StringType())]))

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803  # Spark's names
        packs = [decode_pack(row.pack) for row in rows]
        if tuple(key) == REJECTS:
            rejects = (quarantine_row(*reject) for pack in packs for reject in pack.rejects)
            yield from pack_rows({"quarantine": list(rejects)})
            return
        cluster, broker_name = key
        value = self._state.get()
        if value is None and not any(pack.attempts or pack.fleet for pack in packs):
            return  # a tick for what nobody has sent to
        rules, planned = self._rules.of(cluster), told_plan()
        now_ms = max(pack.newest_ms() for pack in packs)
        state: Board | Fleet
        if broker_name is None:
            state, found = advance_or_set_aside(
                lambda: _decode_fleet(value[0]) if value else Fleet(),
                lambda fleet: advance_fleet(fleet, packs, cluster, rules, self._limit, planned),
                {"cluster": cluster},
                now_ms,
                rules,
            )
        else:
            idle_ms, may_be_cut = rules.fault_item_idle_ms, self._limit > 0
            state, found = advance_or_set_aside(
                lambda: _decode_board(value[0]) if value else Board(),
                lambda board: advance_board(board, packs, cluster, broker_name, idle_ms=idle_ms, may_be_cut=may_be_cut),
                {"cluster": cluster, "broker_name": broker_name},
                now_ms,
                rules,
            )
        yield from pack_rows(found)
        self._state.update((_encode(state).decode(),))

    def close(self) -> None:
        """Nothing is held."""


def advance_board(
    board: Board, packs: Sequence[Pack], cluster: str, broker_name: str, *, idle_ms: int, may_be_cut: bool
) -> Rows:
    """Rows of one broker's batch. With `may_be_cut` a tick far ahead of the attempts beside it is left alone.

    maxOffsetsPerTrigger cuts the clock topic elsewhere than the attempts; the next tick will do.
    """
    forgotten_ms = max((at_ms for pack in packs for _, _, at_ms, _ in pack.forgotten), default=0)
    closed, last = forget_items(board, forgotten_ms) if forgotten_ms else ([], [])
    attempts = [of for pack in packs for of in pack.attempts if of.steps[-1].to_ms > forgotten_ms]
    newest_ms = max((of.steps[-1].to_ms for of in attempts), default=None)
    tick_ms = max((pack.tick_ms for pack in packs if pack.tick_ms is not None), default=None)
    if may_be_cut and tick_ms and newest_ms and tick_ms > newest_ms + CUT_SKEW_MS:
        tick_ms = None
    flips, health = board.advance(attempts, tick_ms, idle_ms)
    place = {"cluster": cluster, "broker_name": broker_name}
    return {
        "fault_items": [place | _fault_item_row(flip) for flip in (*closed, *flips)],
        "broker_health": [place | _broker_health_row(row) for row in (*last, *health)],
    }


def advance_fleet(
    fleet: Fleet, packs: Sequence[Pack], cluster: str, rules: Rules, limit: int, planned: Planned | None = None
) -> Rows:
    """Alert rows of one cluster's batch, and the last rows of brokers that nobody asks any more.

    `limit` is maxOffsetsPerTrigger, 0 for none. A batch that reached the limit was cut: its ticks count only as far as
    all its partitions were read. What waits is bounded.
    """
    forgotten = [one for pack in packs for one in pack.forgotten]
    ended = [transition for one in forgotten for transition in forget_of_fleet(fleet, *one)]
    forgotten_ms = max((at_ms for _, _, at_ms, _ in forgotten), default=0)
    fleet.learn_lags(lag for pack in packs for lag in pack.lags)
    for pack in packs:
        for broker_name, producers in pack.fleet.items():
            for attempts in producers:
                if attempts.steps[-1].to_ms > forgotten_ms:
                    fleet.add(broker_name, attempts)
        fleet.tick_ms = max(fleet.tick_ms, pack.tick_ms or 0)
        note_asked(fleet, pack.asked_ms)
    safe_ms = safe_time_ms([chunk for pack in packs for chunk in pack.read], CLOCKS, limit, planned)
    tick_ms = fleet.tick_ms
    if planned is not None and planned.is_once:
        tick_ms = time_of_log(fleet, rules.unheard_page_ms, is_whole=safe_ms is None)
    to_ms = tick_ms if safe_ms is None else min(tick_ms, safe_ms.get(cluster, 0))
    before_ms = fleet.judged_ms
    transitions = [
        transition
        for _ in fleet.moments(to_ms, rules.fault_item_idle_ms)
        for transition in judge_fleet(fleet, cluster, rules)
    ]
    if fleet.judged_ms > before_ms:
        transitions += end_drop(fleet, fleet.judged_ms)
    if dropped := drop_oldest(fleet):
        transitions += tell_drop(fleet, cluster, dropped, rules)
    alerts = [alert_row(transition) for transition in (*ended, *transitions)]
    closed = list(close_unasked(fleet, rules.fault_item_idle_ms))
    return {
        "alerts": alerts,
        "fault_items": [_place(cluster, one) | _fault_item_row(flip) for one in closed for flip in one.flips],
        "broker_health": [_place(cluster, one) | _broker_health_row(one.health) for one in closed],
        CLOCK_WANTED: list(_clock_wanted(fleet, packs, cluster, forgotten_ms)),
    }


def _place(cluster: str, last: LastRows) -> dict[str, Any]:
    return {"cluster": cluster, "broker_name": last.broker_name}


def _clock_wanted(fleet: Fleet, packs: Sequence[Pack], cluster: str, forgotten_ms: int) -> Iterator[dict[str, Any]]:
    """Producers alone may feed a cluster, which then has no clock but ours; none of one that was forgotten since."""
    newest_ms = max((of.steps[-1].to_ms for pack in packs for each in pack.fleet.values() for of in each), default=0)
    since_ms = max(fleet.tick_ms + CLOCK_MISSED_MS, forgotten_ms)
    if newest_ms > since_ms and not any(pack.tick_ms for pack in packs):
        yield {"cluster": cluster, "is_wanted": True, "newest_ms": newest_ms}


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
