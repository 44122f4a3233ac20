"""Sends without Spark: messages combined, packed, and worked through by a broker's board."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import msgspec
import pytest

from schemas.events import CLOCKS, SEND_LATENCIES
from streaming.queries.parcel import Chunk, Key, Pack
from streaming.queries.running import plan_of
from streaming.queries.sends import FleetTurn, advance_board
from streaming.queries.shard import work_through
from streaming.queries.state import StateCache
from streaming.queries.store import DictShardStore
from streaming.queries.waiting import Complete, Planned
from streaming.replay.stream import parcels_for
from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from streaming.warehouse.rows import Rows
from tests.queries.logs import cut_as_spark_does
from tests.support.engine import cut
from tests.support.rules import default_rules
from tests.support.tiers import in_proof
from udfs.alerts.rulebook import Rulebook
from udfs.producers.board import Board
from udfs.producers.fleet import Fleet

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


def combine(messages: list[dict[str, Any]]) -> dict[Key, Pack]:
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
    clock = {"cluster": "c", "source": "t", "brokers_asked": [], "brokers_answered": [], "event_time_ms": START_MS - 40}
    late = [send(0, client_id="late", event_time_ms=START_MS - 20_000), send(1, event_time_ms=START_MS - 500)]
    pack = combine([*late, message(CLOCKS, 0, msgspec.json.encode(clock))])["c", None]
    assert {(lag.source, lag.machine): lag.least_ms for lag in pack.lags} == {
        ("clock", "t"): 40,
        ("sends", "broker-a"): 500,
        ("sends_of", "late"): 20_000,
    }
    fleet = Fleet()
    fleet.learn_lags(pack.lags)
    assert msgspec.json.decode(msgspec.json.encode(fleet), type=Fleet) == fleet


def test_a_clock_event_ticks_the_brokers_it_asked_and_a_bad_one_none() -> None:
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
        ("c", None): START_MS,
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
    for (cluster, broker_name), pack in combine(messages).items():
        if broker_name is not None:
            advanced = advance_board(Board(), [pack], cluster, broker_name, idle_ms=IDLE_MS, may_be_cut=False)
            for table, of_table in advanced.items():
                rows[table] += of_table
    assert {row["broker_name"] for row in rows["fault_items"]} == {"broker-b"}
    newest = {row["client_id"]: row["available"] for row in rows["fault_items"]}
    assert newest
    assert all(newest.values())
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


def stream(
    batches: Iterable[Sequence[dict[str, Any]]],
    limit: int = 0,
    plan_for: Callable[[Sequence[dict[str, Any]]], Planned | None] = lambda _: None,
) -> Rows:
    """All rows of a log, batch by batch as the query runs it: a task a partition, then the shard."""
    store, states, rulebook = DictShardStore(), StateCache(), Rulebook(default_rules())
    rows: Rows = defaultdict(list)
    for batch in batches:
        tasks: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
        for one in batch:
            tasks[one["topic"], one["partition"]].append(one)
        parcels = [parcel for of_task in tasks.values() for parcel in parcels_for(of_task, 0, 1)]
        with states.state_of(0, store) as state:
            planned = plan_for(batch) or plan_of({place: len(of_task) for place, of_task in tasks.items()}, limit)
            found = work_through(0, 1, state, rulebook, parcels, limit, planned)
        for name, of_table in found.items():
            rows[name] += of_table
    return rows


@pytest.mark.replay
@pytest.mark.parametrize("scenario", ["slow_broker", "evicted_broker", *in_proof(["all_brokers_slow"])])
def test_a_log_gives_the_same_alert_rows_however_it_is_cut(scenario: str) -> None:
    """In 1, 7 and 50 batches; and as maxOffsetsPerTrigger cuts it, at another time in each partition."""
    log = log_of(scenario, 15)
    whole = stream([log])["alerts"]
    assert whole
    for batches in (7, 50):
        assert stream(cut(log, batches))["alerts"] == whole
    for limit in (40, 900):
        assert stream(cut_as_spark_does(log, limit), limit)["alerts"] == whole


def test_an_empty_name_is_refused_and_a_message_without_a_value_is_nobodys_key() -> None:
    rows = stream([[send(0, cluster="", broker_name="", latency_ms=600), message(SEND_LATENCIES, 1, None), send(2)]])
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
    by_ticks = fired(stream([log])["alerts"])
    assert by_ticks
    assert stream(batches, limit)["alerts"] == []  # more may come, and a tick with it

    def plan_for(batch: Sequence[dict[str, Any]]) -> Planned:
        places = frozenset((one["topic"], one["partition"]) for one in batch if batch is not batches[-1])
        return Planned(bool(places), places, is_once=True)

    assert fired(stream(batches, limit, plan_for)["alerts"]) == by_ticks
