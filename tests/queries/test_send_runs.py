"""Attempts run-lengthed by columns are those that are added one by one, whatever the log and however it is cut."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from schemas.decode import decode
from schemas.events import CLOCKS, SEND_LATENCIES
from streaming.queries.events import not_after
from streaming.queries.pack import Combiner, builder_for
from streaming.queries.parcel import Key, Pack, Reject
from tests.queries.test_fault_items import START_MS as SENT_MS
from tests.queries.test_fault_items import send
from tests.support.examples import examples
from udfs.brokers.skew import WINDOW_MS
from udfs.producers.attempts import MOMENT_MS, QUIET_MS

START_MS = 1_789_000_000_000
DAY_MS = 86_400_000

Message = dict[str, Any]


class PlainCombiner(Combiner):
    """Takes each send latency by itself."""

    def add(self, batch: pa.RecordBatch) -> None:
        for one in batch.to_pylist():
            ingest_time_ms = one["ingest_time_ms"]
            event, reasons = decode(SEND_LATENCIES, one["value"], ingest_time_ms)
            if reasons:
                reject = Reject(one["offset"], ingest_time_ms, one["value"], reasons)
                self.rejects.append((SEND_LATENCIES, one["partition"], reject))
                continue
            lag_ms = ingest_time_ms - event.event_time_ms
            self._lags.note_send(event.cluster, event.broker_name, event.client_id, lag_ms, ingest_time_ms)
            time_ms = not_after(event.event_time_ms, ingest_time_ms)
            builder = builder_for(self._builders, event)
            builder.add(time_ms, event.latency_ms, event.isolation, event.reachable is not False)
        self._note_all_read(batch)


def packs_of(
    combiner: Combiner, log: Sequence[Message], cuts: Sequence[int] = ()
) -> tuple[list[tuple[Key, Pack]], list[Any]]:
    """In their order, and the bad sends; the log comes in Arrow batches."""
    schema = pa.schema(
        {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "ingest_time_ms": pa.int64()}
        | {"value": pa.binary()}
    )
    edges = [0, *sorted(cuts), len(log)]
    for start, end in itertools.pairwise(edges):
        part = log[start:end]
        if sends_of_part := [one for one in part if one["topic"] == SEND_LATENCIES]:
            combiner.add(pa.RecordBatch.from_pylist(sends_of_part, schema))
        for one in part:
            if one["topic"] == CLOCKS:
                event, _ = decode(CLOCKS, one["value"], one["ingest_time_ms"])
                combiner.note_clock(one["partition"], one["offset"], one["ingest_time_ms"], event)
    return list(combiner.packs()), combiner.rejects


_steps_ms = st.sampled_from([0, 0, 1, 40, 900, MOMENT_MS, QUIET_MS - 1, QUIET_MS, WINDOW_MS, 3 * DAY_MS])
_off_ms = st.sampled_from(
    [0] * 8 + [-1, -40, 5, 9_999, 10_000, 10_001, -QUIET_MS, 600_000, DAY_MS, DAY_MS + 1, -DAY_MS]
)


@st.composite
def sends(draw: Any, now_ms: int) -> bytes | None:
    """A send latency; one in many is bad, or written in another way."""
    event = {
        "cluster": draw(st.sampled_from("ccd")),
        "client_id": draw(st.sampled_from(["p", "p", "q", "订单"])),
        "client_version": draw(st.sampled_from(["4.9.8", "5.1.4", "5.1.4", "5.5.0"])),
        "topic": "orders",
        "broker_name": draw(st.sampled_from("aab")),
        "queue_id": draw(st.sampled_from([0, 0, 0, 1, 16_384])),
        "latency_ms": draw(st.sampled_from([3, 3, 4, 60, 549, 550, 700, 15_000, -1])),
        "isolation": draw(st.sampled_from([False] * 5 + [True])),
        "event_time_ms": now_ms + draw(_off_ms),
    }
    if draw(st.integers(0, 3)) == 0:
        event["reachable"] = draw(st.sampled_from([None, True, False]))
    if draw(st.integers(0, 9)) == 0:
        return draw(
            st.sampled_from([None, b"", b"x", json.dumps(event).encode(), msgspec.json.encode(event | {"x": 1})])
        )
    return msgspec.json.encode(event)


@st.composite
def logs(draw: Any) -> list[Message]:
    now_ms, log = START_MS, []
    for offset in range(draw(st.integers(1, 40))):
        now_ms += draw(_steps_ms)
        topic, value = SEND_LATENCIES, draw(sends(now_ms))
        if draw(st.integers(0, 9)) == 0:
            reported = {"source": "t", "brokers_asked": ["a"], "brokers_answered": [], "event_time_ms": now_ms}
            topic, value = CLOCKS, msgspec.json.encode({"cluster": "c"} | reported)
        where = {"topic": topic, "partition": draw(st.sampled_from([0, 0, 0, 1])), "offset": offset}
        log.append({**where, "ingest_time_ms": now_ms + draw(_off_ms) // 2, "value": value})
    return log


@examples(120)
@given(logs(), st.lists(st.integers(0, 40), max_size=3))
def test_a_log_gives_the_same_packs_by_columns_as_one_by_one_and_however_it_is_cut(
    log: list[Message], cuts: list[int]
) -> None:
    plain = packs_of(PlainCombiner(), log)
    assert packs_of(Combiner(), log) == plain
    assert packs_of(Combiner(), log, [min(cut, len(log)) for cut in cuts]) == plain


def quick(offset: int, **fields: Any) -> Message:
    return send(offset, **fields) | {"ingest_time_ms": SENT_MS + offset}


def test_more_producers_than_fit_into_small_numbers_keep_their_order() -> None:
    log = [quick(number, client_id=f"p{number % 66_000}") for number in range(132_000)]
    pack = dict(packs_of(Combiner(), log)[0])["c", "broker-a"]
    assert [of.client_id for of in pack.attempts] == [f"p{number}" for number in range(66_000)]
    assert all(len(of.steps) == 2 for of in pack.attempts)


def test_an_empty_batch_is_nothing() -> None:
    assert packs_of(Combiner(), []) == ([], [])


def test_a_shape_all_of_whose_messages_are_bad_makes_no_producer() -> None:
    bad = [quick(offset, latency_ms=DAY_MS + 1) for offset in range(4)]
    packs, rejects = packs_of(Combiner(), [*bad, *map(quick, range(4, 8))])
    assert [key for key, _ in packs] == [("c", "broker-a"), ("c", None)]
    assert [reject.offset for _, _, reject in rejects] == [0, 1, 2, 3]
    assert packs_of(Combiner(), bad)[0] == []
