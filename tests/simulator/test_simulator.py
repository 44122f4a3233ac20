"""The modelled cluster: it keeps RocketMQ's clocks, starves the queues it should, and is played in step with time."""

import json
import threading
import time
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from schemas.events import CLOCKS, HEARTBEATS, ROUTES
from streaming.simulator.play import play
from streaming.simulator.scenario import ScenarioError, load_scenario, parse_scenario
from streaming.simulator.simulation import Simulation
from tests.simulator.modelled import MINUTE, START, healthy, of, pulled, run
from tests.support.golden import GOLDEN

pytestmark = pytest.mark.replay


def test_clients_are_heard_by_every_broker_every_30_seconds_and_when_their_queues_change() -> None:
    heard = defaultdict(list)
    for beat in of(run("healthy")[1], HEARTBEATS):
        heard[beat["broker_name"], beat["client_addr"]].append(beat["event_time_ms"])
    assert len(heard) == 2 * 5
    for times in heard.values():
        assert all(later - earlier <= 30_100 for earlier, later in pairwise(times))
        settled = [time_ms for time_ms in times if time_ms > START + 5_000]
        assert all(later - earlier >= 29_900 for earlier, later in pairwise(settled))


def test_the_twin_that_stops_says_so_at_every_broker() -> None:
    leaving = [beat for beat in of(run("twins")[1], HEARTBEATS) if beat.get("leaving")]
    assert [beat["broker_name"] for beat in leaving] == ["broker-a", "broker-b"]
    assert {beat["client_addr"].split(":")[0] for beat in leaving} == {"10.20.0.12"}
    assert all(0 <= beat["event_time_ms"] - START - 420_000 <= 5 for beat in leaving)


def test_a_reconnected_client_has_a_second_slot_until_its_old_channel_expires() -> None:
    simulation, events = run("reconnect")
    by_addr = defaultdict(list)
    for beat in of(events, HEARTBEATS):
        if beat["client_id"].startswith("10.20.0.12") and beat["broker_name"] == "broker-a":
            by_addr[beat["client_addr"]].append(beat["event_time_ms"])
            assert "leaving" not in beat
    old, new = sorted(by_addr.values())
    assert max(old) < START + MINUTE <= min(new)
    assert {one.cause for one in simulation.truth.at(START + 2 * MINUTE)} == {"reconnect"}
    assert simulation.truth.at(START + 4 * MINUTE) == []


def test_a_topic_that_grows_has_its_new_queues_consumed_within_a_route_poll_and_a_rebalance() -> None:
    scenario = healthy(happenings=[{"at": 400, "action": "scale_topic", "topic": "orders", "queue_nums": 10}])
    simulation, events = run(scenario, 3)
    assert len({one.mq for one in simulation.truth.at(START + 400_000)}) == 4
    assert [route["event_time_ms"] for route in of(events, ROUTES)].count(START + 400_000) == 1
    assert simulation.truth.at(START + 460_000) == []
    assert len(pulled(events, 460, 480)) == 20


REFUSED = [case.splitlines() for case in (GOLDEN / "scenarios.txt").read_text().split("\n\n")[1:]]


@pytest.mark.parametrize(("change", "sentence"), REFUSED)
def test_a_wrong_scenario_is_one_sentence(change: str, sentence: str) -> None:
    with pytest.raises(ScenarioError) as error:
        parse_scenario(load_scenario("healthy").model_dump() | json.loads(change))
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_scenario_names_the_known_ones() -> None:
    with pytest.raises(
        ScenarioError, match=r"'nope' is neither a file nor one of .*demo, empty_ring, .*healthy, .*twins"
    ):
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
    events = Simulation(load_scenario("healthy"), 1, START).events(12_000)
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
    assert time.monotonic() - started >= 0.1  # 2 s of them, 20 times as fast


def test_play_stops_in_the_middle_of_a_wait() -> None:
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    events = [(CLOCKS, {"event_time_ms": time_ms}) for time_ms in (0, 3_600_000)]
    assert play(events, Recorder(), speed=1, stop=stop) == 1  # the second waits for an hour
