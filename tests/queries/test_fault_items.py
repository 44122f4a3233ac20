"""The fault_items query without Spark: messages combined, packed, and worked through by a broker's board."""

from typing import Any

import msgspec
import pyarrow as pa

from schemas.events import CLOCKS, SEND_LATENCIES
from streaming.ingest.simulator import Simulation, load_scenario
from streaming.queries.fault_items import REJECTS, Combiner, Pack, advance_board
from udfs.broker_board import Board

START_MS = 1_750_000_000_000
IDLE_MS = 1_800_000


def send(offset: int, **fields: Any) -> dict[str, Any]:
    event = {
        "cluster": "c",
        "client_id": "p",
        "client_version": "4.9.8",
        "topic": "orders",
        "broker_name": "broker-a",
        "queue_id": 0,
        "latency_ms": 3,
        "isolation": False,
        "event_time_ms": START_MS + offset,
    }
    return message(SEND_LATENCIES, offset, msgspec.json.encode(event | fields))


def message(topic: str, offset: int, value: bytes | None) -> dict[str, Any]:
    return {"topic": topic, "partition": 0, "offset": offset, "ingest_time_ms": START_MS, "value": value}


def combine(messages: list[dict[str, Any]]) -> dict[tuple[str, str], Pack]:
    combiner = Combiner()
    combiner.add(pa.RecordBatch.from_pylist(messages))
    return dict(combiner.packs())


def test_sends_become_one_pack_a_broker() -> None:
    packs = combine([send(i, broker_name=f"broker-{i % 2}", client_id=f"p{i % 3}") for i in range(600)])
    assert sorted(packs) == [("c", "broker-0"), ("c", "broker-1")]
    assert [len(of.steps) for of in packs["c", "broker-0"].attempts] == [1, 1, 1]


def test_a_bad_message_is_kept_whole_and_the_others_go_on() -> None:
    bad = [
        message(SEND_LATENCIES, 1, b"not json"),
        message(SEND_LATENCIES, 2, None),
        send(3, latency_ms=-1),
        send(4, queue_id=-1, latency_ms="3"),
        send(5, event_time_ms=START_MS + 86_400_001),
        message(SEND_LATENCIES, 6, b"{" + b" " * (1 << 20) + b"}"),
    ]
    packs = combine([send(0), *bad, send(7)])
    rejects = [reject for _, _, reject in packs[REJECTS].rejects]
    assert [(reject.offset, reject.value) for reject in rejects] == [(m["offset"], m["value"]) for m in bad]
    assert [reject.reasons for reject in rejects] == [
        ["not_json"],
        ["not_json"],
        ["negative_value: latency_ms"],
        ["unknown_queue: queue_id", "wrong_type: latency_ms"],
        ["time_ahead: event_time_ms"],
        ["too_large"],
    ]
    (attempts,) = packs["c", "broker-a"].attempts
    assert (attempts.steps[0].from_ms, attempts.steps[0].to_ms) == (START_MS, START_MS + 7)


def test_unlisted_fields_are_left_out() -> None:
    assert combine([send(0, trace={"id": [1, 2]})])["c", "broker-a"].attempts[0].client_id == "p"


def test_a_clock_event_ticks_the_brokers_it_asked_and_a_bad_one_is_left_to_the_other_query() -> None:
    clock = {
        "cluster": "c",
        "source": "t",
        "brokers_asked": ["broker-a", "broker-b"],
        "brokers_answered": [],
        "event_time_ms": START_MS,
    }
    packs = combine([message(CLOCKS, 0, msgspec.json.encode(clock)), message(CLOCKS, 1, b"{}")])
    assert {place: pack.tick_ms for place, pack in packs.items()} == {
        ("c", "broker-a"): START_MS,
        ("c", "broker-b"): START_MS,
    }


def test_a_tick_far_ahead_of_a_cut_batch_waits_for_the_next() -> None:
    packs = combine([send(0, latency_ms=600)])
    pack = packs["c", "broker-a"]
    pack.tick_ms = START_MS + 600_000
    cut = advance_board(Board(), [pack], "c", "broker-a", idle_ms=IDLE_MS, may_be_cut=True)
    whole = advance_board(Board(), [pack], "c", "broker-a", idle_ms=IDLE_MS, may_be_cut=False)
    assert [row["available"] for row in cut["fault_items"]] == [False]
    assert [row["available"] for row in whole["fault_items"]] == [False, True]


def test_a_modelled_slow_broker_is_avoided_by_its_producers_alone() -> None:
    """Every row is about the broker the scenario slows down; the last producer, a 4.9.8, is back after ten minutes."""
    scenario = load_scenario("slow_broker")
    messages = [
        message(topic, offset, msgspec.json.encode(event)) | {"ingest_time_ms": event["event_time_ms"]}
        for offset, (topic, event) in enumerate(Simulation(scenario, 1, START_MS).events(1_200_000))
        if topic in (SEND_LATENCIES, CLOCKS)
    ]
    rows: dict[str, list[dict[str, Any]]] = {"fault_items": [], "broker_health": []}
    for place, pack in combine(messages).items():
        for table, of_table in advance_board(Board(), [pack], *place, idle_ms=IDLE_MS, may_be_cut=False).items():
            rows[table] += of_table
    assert {row["broker_name"] for row in rows["fault_items"]} == {"broker-b"}
    newest = {row["client_id"]: row["available"] for row in rows["fault_items"]}
    assert newest
    assert all(newest.values())
    health = [row for row in rows["broker_health"] if row["broker_name"] == "broker-b"]
    assert max(row["unavailable_producers"] for row in health) == health[-1]["producers"]
    assert health[-1]["unavailable_producers"] == 0
