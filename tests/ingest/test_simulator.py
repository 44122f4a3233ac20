"""The modelled cluster: it speaks the contracts, keeps RocketMQ's clocks, and starves the queues it should."""

import threading
import time
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from schemas.decode import decode
from schemas.events import CLOCKS, EVENTS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from streaming.ingest.simulator import (
    ScenarioError,
    Simulation,
    load_scenario,
    parse_scenario,
    scenario_names,
    simulate,
)
from streaming.ingest.simulator.play import play
from udfs.model import MessageQueue

START = 1_700_000_000_000
MINUTE = 60_000
Run = tuple[Simulation, list[tuple[str, dict[str, Any]]]]


def run(name: str, seed: int = 1, duration_ms: int | None = None) -> Run:
    simulation = Simulation(load_scenario(name), seed, START)
    return simulation, list(simulation.events(duration_ms))


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return {name: run(name, duration_ms=600_000) for name in scenario_names()}


def of(events: list[tuple[str, dict[str, Any]]], topic: str) -> list[dict[str, Any]]:
    return [event for name, event in events if name == topic]


def mq_of(pull: dict[str, Any]) -> MessageQueue:
    return MessageQueue(pull["topic"], pull["broker_name"], pull["queue_id"])


def pulled(events: list[tuple[str, dict[str, Any]]], from_ms: int, to_ms: int) -> dict[MessageQueue, set[str]]:
    """Each queue that was pulled in an interval, with the hosts that pulled it."""
    hosts: dict[MessageQueue, set[str]] = defaultdict(set)
    for pull in of(events, PULLS):
        if START + from_ms <= pull["event_time_ms"] < START + to_ms:
            hosts[mq_of(pull)].add(pull["client_addr"].split(":")[0])
    return hosts


def test_a_seed_gives_the_same_bytes_again_and_another_seed_others() -> None:
    first, again, other = (msgspec.json.encode(run("demo", seed, 3 * MINUTE)[1]) for seed in (7, 7, 8))
    assert first == again
    assert first != other


@pytest.mark.parametrize("name", scenario_names())
def test_every_event_keeps_its_contract(name: str, runs: dict[str, Run]) -> None:
    _, events = runs[name]
    assert {topic for topic, _ in events} == set(EVENTS)
    for topic, event in events:
        _, reasons = decode(topic, msgspec.json.encode(event), event["event_time_ms"])
        assert reasons == []
        assert event.keys() <= set(EVENTS[topic].fieldNames())


@pytest.mark.parametrize("name", scenario_names())
def test_time_never_goes_back_and_the_clock_comes_last(name: str, runs: dict[str, Run]) -> None:
    _, events = runs[name]
    order = [(event["event_time_ms"], topic == CLOCKS) for topic, event in events]
    assert order == sorted(order)
    clocks = [clock["event_time_ms"] - START for clock in of(events, CLOCKS)]
    assert clocks == list(range(5_000, 600_001, 5_000))


@pytest.mark.parametrize("name", scenario_names())
def test_offsets_of_a_pull_make_sense(name: str, runs: dict[str, Run]) -> None:
    newest: Counter[MessageQueue] = Counter()
    for pull in of(runs[name][1], PULLS):
        assert 0 <= pull["commit_offset"] <= pull["pull_offset"] <= pull["max_offset"]
        assert pull["max_offset"] >= newest[mq_of(pull)]
        newest[mq_of(pull)] = pull["max_offset"]


def test_healthy_queues_are_pulled_by_one_client_within_every_20_seconds(runs: dict[str, Run]) -> None:
    simulation, events = runs["healthy"]
    for from_ms in range(25_000, 580_000, 20_000):
        hosts = pulled(events, from_ms, from_ms + 20_000)
        assert len(hosts) == 16
        assert {len(of_queue) for of_queue in hosts.values()} == {1}
    assert simulation.truth.at(START + 5 * MINUTE) == []


def test_clients_are_heard_by_every_broker_every_30_seconds(runs: dict[str, Run]) -> None:
    heard = defaultdict(list)
    for beat in of(runs["healthy"][1], HEARTBEATS):
        heard[beat["broker_name"], beat["client_addr"]].append(beat["event_time_ms"])
    assert len(heard) == 2 * 5
    for times in heard.values():
        assert all(29_900 <= later - earlier <= 30_100 for earlier, later in pairwise(times))


def test_routes_are_said_at_the_start_and_every_30_seconds(runs: dict[str, Run]) -> None:
    times = [route["event_time_ms"] - START for route in of(runs["healthy"][1], ROUTES)]
    assert times == list(range(0, 600_001, 30_000))


def test_twins_starve_the_later_slot_and_both_pull_the_first(runs: dict[str, Run]) -> None:
    simulation, events = runs["twins"]
    mq_all = sorted(MessageQueue("orders", broker, queue) for broker in ("broker-a", "broker-b") for queue in range(8))
    starved = simulation.truth.at(START + 4 * MINUTE)
    assert {one.mq for one in starved} == set(mq_all[6:11])  # 16 over [A, A, B]: 0-5, 6-10 nobody's, 11-15
    assert {one.cause for one in starved} == {"duplicate_client_id"}
    hosts = pulled(events, 90_000, 420_000)
    assert set(hosts) == set(mq_all[:6] + mq_all[11:])
    assert {frozenset(hosts[mq]) for mq in mq_all[:6]} == {frozenset({"10.20.0.11", "10.20.0.12"})}
    assert simulation.truth.at(START + 8 * MINUTE) == []
    assert set(pulled(events, 8 * MINUTE, 9 * MINUTE)) == set(mq_all)


def test_a_starved_queue_keeps_growing() -> None:
    simulation = Simulation(load_scenario("twins"), 1, START)
    events = simulation.events()
    ends = []
    for topic, event in events:
        if topic == CLOCKS and event["event_time_ms"] - START in (2 * MINUTE, 6 * MINUTE):
            ends.append(simulation.max_offset("orders", "broker-b", 0))
    assert ends[1] > ends[0]


def test_the_twin_that_stops_says_so_at_every_broker(runs: dict[str, Run]) -> None:
    leaving = [beat for beat in of(runs["twins"][1], HEARTBEATS) if beat.get("leaving")]
    assert [beat["broker_name"] for beat in leaving] == ["broker-a", "broker-b"]
    assert {beat["client_addr"].split(":")[0] for beat in leaving} == {"10.20.0.12"}
    assert {beat["event_time_ms"] for beat in leaving} == {START + 420_000}


def test_a_frozen_client_says_nothing_and_loses_its_queues_when_its_channels_expire(runs: dict[str, Run]) -> None:
    simulation, events = runs["frozen_client"]
    beats = [beat["event_time_ms"] for beat in of(events, HEARTBEATS) if "10.20.0.12" in beat["client_addr"]]
    last = max(time_ms for time_ms in beats if time_ms < START + 3 * MINUTE)
    assert last <= START + MINUTE
    starved = [one for one in simulation.truth if one.cause == "frozen_client"]
    assert len(starved) == 5
    for one in starved:
        assert one.start_ms == START + MINUTE
        assert one.end_ms is not None
        assert 120_000 <= one.end_ms - last <= 160_000
    assert set(pulled(events, 0, MINUTE)) == set(pulled(events, 200_000, 220_000))
    assert "10.20.0.12" not in set().union(*pulled(events, MINUTE, 6 * MINUTE).values())
    assert "10.20.0.12" in set().union(*pulled(events, 400_000, 420_000).values())


def test_a_reconnected_client_has_a_second_slot_until_its_old_channel_expires(runs: dict[str, Run]) -> None:
    simulation, events = runs["reconnect"]
    by_addr = defaultdict(list)
    for beat in of(events, HEARTBEATS):
        if beat["client_id"].startswith("10.20.0.12") and beat["broker_name"] == "broker-a":
            by_addr[beat["client_addr"]].append(beat["event_time_ms"])
            assert "leaving" not in beat
    old, new = sorted(by_addr.values())
    assert max(old) < START + MINUTE <= min(new)
    assert {one.cause for one in simulation.truth.at(START + 2 * MINUTE)} == {"reconnect"}
    assert simulation.truth.at(START + 4 * MINUTE) == []


def test_producers_stay_away_from_a_slow_broker_by_their_release(runs: dict[str, Run]) -> None:
    sends: Counter[tuple[str, str, bool]] = Counter()
    for send in of(runs["slow_broker"][1], SEND_LATENCIES):
        is_slow = 125_000 <= send["event_time_ms"] - START < 240_000
        sends[send["client_version"], send["broker_name"], is_slow] += 1
    for version in ("4.9.8", "5.1.4", "5.3.3"):
        assert sends[version, "broker-b", False] > 150
        assert sends[version, "broker-b", True] < sends[version, "broker-a", True] / 2
    assert sends["4.9.8", "broker-b", True] <= 3  # 2000 ms: away for 120 s
    assert 10 <= sends["5.3.3", "broker-b", True] <= 25  # 2000 ms: away for 5 s


def test_a_failed_send_isolates_and_is_tried_at_the_other_broker(runs: dict[str, Run]) -> None:
    sends = of(runs["slow_broker"][1], SEND_LATENCIES)
    failed = [send for send in sends if send["isolation"]]
    assert {send["broker_name"] for send in failed} == {"broker-b"}
    assert all("send_status" not in send for send in failed)
    assert all(START + 420_000 <= send["event_time_ms"] <= START + 484_000 for send in failed)
    for send in failed:
        following = next(
            later
            for later in sends
            if later["client_id"] == send["client_id"] and later["event_time_ms"] > send["event_time_ms"]
        )
        assert following["broker_name"] == "broker-a"


def test_other_happenings() -> None:
    fields = msgspec.convert(load_scenario("healthy").model_dump(), dict)
    fields["happenings"] = [
        {"at": 60, "action": "kill", "consumer": "order-1"},
        {"at": 300, "action": "start", "consumer": "order-1"},
        {"at": 400, "action": "scale_topic", "topic": "orders", "queue_nums": 10},
    ]
    simulation = Simulation(parse_scenario(fields), 3, START)
    events = list(simulation.events())
    assert {one.cause for one in simulation.truth.at(START + 2 * MINUTE)} == {"lost_client"}
    assert not any(beat.get("leaving") for beat in of(events, HEARTBEATS))
    assert simulation.truth.at(START + 380_000) == []
    assert len({one.mq for one in simulation.truth.at(START + 400_000)}) == 4
    assert [route["event_time_ms"] for route in of(events, ROUTES)].count(START + 400_000) == 1
    assert simulation.truth.at(START + 460_000) == []
    assert len(pulled(events, 460_000, 480_000)) == 20


def test_all_scenarios_play_with_any_seed() -> None:
    for seed in range(5):
        for name in scenario_names():
            assert sum(1 for _ in simulate(load_scenario(name), seed, START, MINUTE)) > 100


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"brokers": []}, "brokers = []: tuple should have at least 1 item"),
        ({"cluster": ""}, "cluster = '': string should have at least 1 character"),
        ({"speed": 3}, "speed is not a field of a scenario"),
        ({"brokers": ["b", "b"]}, "brokers has 'b' twice"),
        (
            {"happenings": [{"at": 1, "action": "freeze", "consumer": "nobody"}]},
            "action 'freeze' at 1: consumer 'nobody' is not one of order-1, order-2, order-3",
        ),
        ({"happenings": [{"at": 1, "action": "stop"}]}, "happenings.0: action 'stop' needs consumer"),
        (
            {"happenings": [{"at": 9, "until": 3, "action": "fail_broker", "broker_name": "broker-a"}]},
            "happenings.0: until = 3 is not after at = 9",
        ),
    ],
)
def test_a_wrong_scenario_is_one_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ScenarioError) as error:
        parse_scenario(load_scenario("healthy").model_dump() | change)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_scenario_names_the_known_ones() -> None:
    with pytest.raises(ScenarioError, match="'nope' is not a file and not one of demo, frozen_client, healthy"):
        load_scenario("nope")


class Recorder:
    """A publisher that notes what it was told."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def publish(self, topic: str, event: dict[str, Any]) -> None:
        self.calls.append(topic)

    def flush(self) -> None:
        self.calls.append("flush")


def test_play_flushes_before_each_clock_event_and_at_the_end() -> None:
    recorder = Recorder()
    progress: list[tuple[int, int]] = []
    events = simulate(load_scenario("healthy"), 1, START, 12_000)
    count = play(events, recorder, speed=None, stop=threading.Event(), on_progress=lambda *at: progress.append(at))
    assert count == sum(call != "flush" for call in recorder.calls)
    assert recorder.calls.count("flush") == 3
    assert recorder.calls[-1] == "flush"
    for index, call in enumerate(recorder.calls):
        assert call != CLOCKS or recorder.calls[index - 1] == "flush"
    assert [time_ms - START for _, time_ms in progress] == [5_000, 10_000]


def test_play_keeps_its_pace_for_events_of_the_past() -> None:
    events = [(CLOCKS, {"event_time_ms": time_ms}) for time_ms in (1_000, 2_000, 3_000)]
    started = time.monotonic()
    assert play(events, Recorder(), speed=20, stop=threading.Event()) == 3
    assert 0.1 <= time.monotonic() - started < 0.5


def test_play_stops_in_the_middle_of_a_wait() -> None:
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    events = [(CLOCKS, {"event_time_ms": time_ms}) for time_ms in (0, 3_600_000)]
    started = time.monotonic()
    assert play(events, Recorder(), speed=1, stop=stop) == 1
    assert time.monotonic() - started < 2


def test_play_refuses_a_speed_of_nothing() -> None:
    with pytest.raises(ValueError, match="speed = 0 is not above 0"):
        play([], Recorder(), speed=0, stop=threading.Event())
