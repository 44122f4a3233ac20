"""Sends without Spark: messages combined, packed, and worked through by a broker's board."""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import pytest

from schemas.events import CLOCKS, SEND_LATENCIES
from streaming.queries.parcel import Chunk, Key, Pack
from streaming.queries.sends import FleetTurn, advance_board
from streaming.queries.waiting import Complete, Planned
from streaming.replay.stream import parcels_for
from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from tests.queries.events import send as attempt
from tests.queries.logs import comparable, cut_as_spark_does
from tests.support.engine import cut, replay
from tests.support.rules import default_rules
from tests.support.tiers import in_proof
from udfs.producers.board import Board
from udfs.producers.fleet import Fleet

START_MS = 1_750_000_000_000
IDLE_MS = 1_800_000


def send(offset: int, **fields: Any) -> dict[str, Any]:
    known = {"client_version": "4.9.8", "event_time_ms": START_MS + offset}
    return message(SEND_LATENCIES, offset, msgspec.json.encode(attempt(0, "p", "broker-a")[1] | known | fields))


def message(topic: str, offset: int, value: bytes | None) -> dict[str, Any]:
    return {"topic": topic, "partition": 0, "offset": offset, "ingest_time_ms": START_MS, "value": value}


def clock(at_ms: int, *asked: str) -> dict[str, Any]:
    reported = {"source": "t", "brokers_asked": asked, "brokers_answered": [], "event_time_ms": at_ms}
    return message(CLOCKS, 0, msgspec.json.encode({"cluster": "c", **reported}))


def combine(messages: Sequence[dict[str, Any]]) -> dict[Key, Pack]:
    return {
        (cluster, broker_name): of_key
        for parcel in parcels_for(messages, 0, 1)
        for cluster, broker_name, of_key in parcel.sends
    }


def test_sends_become_one_pack_a_broker() -> None:
    packs = combine([send(i, broker_name=f"broker-{i % 2}", client_id=f"p{i % 3}") for i in range(600)])
    assert set(packs) == {("c", "broker-0"), ("c", "broker-1"), ("c", None)}
    assert [len(of.steps) for of in packs["c", "broker-0"].attempts] == [1, 1, 1]


def test_a_cluster_gets_all_its_brokers_attempts_and_hears_how_far_they_were_read() -> None:
    messages = [send(i, broker_name=f"broker-{i % 2}") for i in range(4)]
    messages[3]["partition"] = 1
    pack = combine([*messages, message(SEND_LATENCIES, 4, b"not json")])["c", None]
    assert not pack.attempts
    assert {broker: [of.client_id for of in attempts] for broker, attempts in pack.fleet.items()} == {
        "broker-0": ["p"],
        "broker-1": ["p"],
    }
    assert [(chunk.partition, chunk.first_offset, chunk.last_offset) for chunk in pack.read] == [(0, 0, 4), (1, 3, 3)]
    assert [chunk.newest_ms for chunk in pack.read] == [{"c": START_MS + 3}] * 2


def test_a_bad_message_is_kept_whole_and_the_others_go_on() -> None:
    bad = [
        message(SEND_LATENCIES, 1, b"not json"),
        message(SEND_LATENCIES, 2, None),
        send(3, latency_ms=-1),
        send(4, queue_id=-1, latency_ms="3"),
        send(5, event_time_ms=START_MS + 86_400_001),
        message(SEND_LATENCIES, 6, b"{" + b" " * (1 << 20) + b"}"),
    ]
    (parcel,) = parcels_for([send(0), *bad, send(7)], 0, 1)
    rejects = [reject for _, _, reject in parcel.rejects]
    assert [(reject.offset, reject.value) for reject in rejects] == [(m["offset"], m["value"]) for m in bad]
    assert [reject.reasons for reject in rejects] == [
        ["not_json"],
        ["not_json"],
        ["negative_value: latency_ms"],
        ["unknown_queue: queue_id", "wrong_type: latency_ms"],
        ["time_ahead: event_time_ms"],
        ["too_large"],
    ]
    (attempts,) = next(of_key for _, broker_name, of_key in parcel.sends if broker_name == "broker-a").attempts
    assert (attempts.steps[0].from_ms, attempts.steps[0].to_ms) == (START_MS, START_MS + 7)


def test_how_late_sends_and_ticks_come_is_reported_by_broker_and_of_producers_that_are_far_off() -> None:
    late = [send(0, client_id="late", event_time_ms=START_MS - 20_000), send(1, event_time_ms=START_MS - 500)]
    pack = combine([*late, clock(START_MS - 40)])["c", None]
    assert {(lag.source, lag.machine): lag.least_ms for lag in pack.lags} == {
        ("clock", "t"): 40,
        ("sends", "broker-a"): 500,
        ("sends_of", "late"): 20_000,
    }
    fleet = Fleet()
    fleet.learn_lags(pack.lags)
    assert msgspec.json.decode(msgspec.json.encode(fleet), type=Fleet) == fleet


def test_a_clock_event_ticks_the_brokers_it_asked_and_a_bad_one_none() -> None:
    packs = combine([clock(START_MS, "broker-a", "broker-b"), message(CLOCKS, 1, b"{}")])
    ticks = {place: pack.tick_ms for place, pack in packs.items()}
    assert ticks == {("c", name): START_MS for name in ("broker-a", "broker-b", None)}


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
    rows: dict[str, list[dict[str, Any]]] = {"fault_items": [], "broker_health": []}
    for (cluster, broker_name), pack in combine(log_of("slow_broker", 20)).items():
        if broker_name is not None:
            advanced = advance_board(Board(), [pack], cluster, broker_name, idle_ms=IDLE_MS, may_be_cut=False)
            for table, of_table in advanced.items():
                rows[table] += of_table
    assert {row["broker_name"] for row in rows["fault_items"]} == {"broker-b"}
    newest = {row["client_id"]: row["available"] for row in rows["fault_items"]}
    assert {*newest.values()} == {True}
    health = [row for row in rows["broker_health"] if row["broker_name"] == "broker-b"]
    assert max(row["unavailable_producers"] for row in health) == health[-1]["producers"]
    assert health[-1]["unavailable_producers"] == 0


@cache
def log_of(scenario: str, minutes: int) -> tuple[dict[str, Any], ...]:
    """What the query reads of a scenario's run."""
    events = Simulation(load_scenario(scenario), 1, START_MS).events(minutes * 60_000)
    offsets: dict[str, int] = defaultdict(int)
    messages = []
    for topic, event in events:
        if topic in (SEND_LATENCIES, CLOCKS):
            one = message(topic, offsets[topic], msgspec.json.encode(event))
            messages.append(one | {"ingest_time_ms": event["event_time_ms"]})
            offsets[topic] += 1
    return tuple(messages)


@pytest.mark.replay
@pytest.mark.parametrize("scenario", ["slow_broker", "evicted_broker", *in_proof(["all_brokers_slow"])])
def test_a_log_gives_the_same_alert_rows_however_it_is_cut(scenario: str) -> None:
    """In 1 and 50 batches; and as maxOffsetsPerTrigger cuts it, at another time in each partition."""
    log = log_of(scenario, 10)
    whole = comparable(replay([log]))["alerts"]
    assert whole
    assert comparable(replay(cut(log, 50)))["alerts"] == whole
    for limit in (70, 900):
        assert comparable(replay(cut_as_spark_does(log, limit), limit=limit))["alerts"] == whole


def test_an_empty_name_is_refused_and_a_message_without_a_value_is_nobodys_key() -> None:
    rows = replay([[send(0, cluster="", broker_name="", latency_ms=600), message(SEND_LATENCIES, 1, None), send(2)]])
    assert {(row["offset"], *row["reasons"]) for row in rows["quarantine"]} == {
        (0, "empty_name: cluster", "empty_name: broker_name"),
        (1, "not_json"),
    }


def test_a_cut_batch_that_shows_no_event_of_a_cluster_moves_its_producers_time_nowhere() -> None:
    fleet, read = Fleet(), [Chunk(SEND_LATENCIES, 0, 0, 99, {"other": START_MS + 900_000}, [], [])]
    cut_off = Planned(is_cut=True, places=frozenset({(SEND_LATENCIES, 0)}))
    for planned, judged_ms in ((cut_off, 0), (Planned(is_cut=False), START_MS + 600_000)):
        most_ms = Complete([], read, planned).most_ms("c", has_groups=False)
        FleetTurn(fleet, Fleet, [Pack(tick_ms=START_MS + 600_000)], "c", default_rules(), most_ms=most_ms).finish()
        assert (fleet.tick_ms, fleet.judged_ms) == (START_MS + 600_000, judged_ms)


def fired(rows: list[dict[str, Any]]) -> set[tuple[str, str, str, int]]:
    return {(row["kind"], row["state"], row["broker_name"], row["started_at"]) for row in rows if row["fired_at"]}


@pytest.mark.replay
@pytest.mark.parametrize(("scenario", "limit"), [("slow_broker", 900), ("evicted_broker", 0)])
def test_sends_without_a_clock_are_judged_by_the_time_of_the_log_as_they_are_by_ticks(
    scenario: str, limit: int
) -> None:
    """Read once and to their end (`run --available-now`)."""
    log = log_of(scenario, 8)
    sends = [one for one in log if one["topic"] == SEND_LATENCIES]
    batches = list(cut_as_spark_does(sends, limit)) if limit else [sends]
    by_ticks = fired(replay([log])["alerts"])
    assert by_ticks
    assert replay(batches, limit=limit).get("alerts", []) == []  # more may come, and a tick with it
    cut_off = [frozenset((one["topic"], one["partition"]) for one in batch) for batch in batches[:-1]]
    plans = [Planned(bool(places), places, is_once=True) for places in (*cut_off, frozenset[tuple[str, int]]())]
    assert fired(replay(batches, limit=limit, plans=plans)["alerts"]) == by_ticks
