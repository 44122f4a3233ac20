"""The modelled servers: NameServer and brokers that come, fall silent, go, and come back with what they wrote down."""

from typing import Any

import pytest

from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from tests.simulator.modelled import START, Run, between, healthy, of, pulled, run, seconds

pytestmark = pytest.mark.replay


def brokers_of(route: dict[str, Any]) -> dict[str, list[int]]:
    return {broker["broker_name"]: broker["broker_ids"] for broker in route["brokers"]}


def answered(events: Any, at_seconds: float) -> list[str]:
    """Who answered in the first round from a moment on."""
    clock = next(clock for clock in of(events, CLOCKS) if seconds(clock) >= at_seconds)
    names: list[str] = clock["brokers_answered"]
    return names


@pytest.fixture(scope="module")
def lost() -> Run:
    """broker-b's host is lost from 100 s to 400 s."""
    return run(healthy(happenings=[{"at": 100, "until": 400, "action": "lose_broker", "broker_name": "broker-b"}]))


@pytest.fixture(scope="module")
def with_slave() -> Run:
    """broker-a's master dies at 100 s and is back at 300 s; its slave serves reads meanwhile."""
    return run(
        healthy(
            brokers=[{"broker_name": "broker-a", "slaves": 1, "slave_read_enable": True}, "broker-b"],
            happenings=[{"at": 100, "until": 300, "action": "crash_broker", "broker_name": "broker-a", "broker_id": 0}],
        )
    )


def test_a_lost_host_is_in_the_routes_until_the_name_server_drops_it_after_120_seconds(lost: Run) -> None:
    _, events = lost
    routes = of(events, ROUTES)
    without = [seconds(route) for route in routes if "broker-b" not in brokers_of(route)]
    # Registered every 30 s, dropped at the first of the scans every 10 s that finds it silent for over 120 s.
    assert 100 + 120 - 30 <= min(without) <= 100 + 120 + 10
    assert max(without) < 400
    assert "broker-b" in brokers_of(next(route for route in routes if seconds(route) >= 400))


def test_a_lost_host_is_asked_and_does_not_answer(lost: Run) -> None:
    _, events = lost
    for clock in of(events, CLOCKS):
        assert clock["brokers_asked"] == ["broker-a", "broker-b"]
        is_down = 100 <= seconds(clock) < 400
        assert clock["brokers_answered"] == (["broker-a"] if is_down else ["broker-a", "broker-b"])


def test_nothing_is_heard_of_a_lost_host_and_its_queues_do_not_starve(lost: Run) -> None:
    simulation, events = lost
    assert not [beat for beat in between(events, HEARTBEATS, 100, 400) if beat["broker_name"] == "broker-b"]
    assert {mq.broker_name for mq in pulled(events, 101, 400)} == {"broker-a"}
    assert simulation.truth.at(START + 200_000) == []
    assert len(pulled(events, 450, 480)) == 16


def test_clients_of_a_broker_that_is_back_are_listed_anew_and_the_old_channels_said_to_have_left(lost: Run) -> None:
    _, events = lost
    at_b = [beat for beat in of(events, HEARTBEATS) if beat["broker_name"] == "broker-b"]
    before = {beat["client_addr"] for beat in at_b if seconds(beat) < 100}
    left = {beat["client_addr"] for beat in at_b if beat.get("leaving") and seconds(beat) == 400}
    after = {beat["client_addr"] for beat in at_b if seconds(beat) > 400}
    assert left == before
    assert len(after) == 5
    assert not after & before


def test_a_broker_that_shuts_down_leaves_the_routes_at_once_and_closes_its_channels() -> None:
    _, events = run(healthy(happenings=[{"at": 100, "until": 130, "action": "stop_broker", "broker_name": "broker-b"}]))
    (route,) = (route for route in of(events, ROUTES) if seconds(route) == 100)
    assert list(brokers_of(route)) == ["broker-a"]
    leaving = [beat for beat in between(events, HEARTBEATS, 100, 100.5) if beat.get("leaving")]
    assert len(leaving) == 5
    assert answered(events, 100) == ["broker-a"]
    assert answered(events, 130) == ["broker-a", "broker-b"]


def test_a_slave_answers_and_serves_when_its_master_is_gone(with_slave: Run) -> None:
    simulation, events = with_slave
    assert all(clock["brokers_answered"] == ["broker-a", "broker-b"] for clock in of(events, CLOCKS))
    route = next(route for route in of(events, ROUTES) if seconds(route) >= 100)
    assert brokers_of(route) == {"broker-a": [1], "broker-b": [0]}
    by_slave = [pull for pull in of(events, PULLS) if pull["broker_id"] == 1]
    assert {pull["broker_name"] for pull in by_slave} == {"broker-a"}
    assert 100 < min(map(seconds, by_slave)) < 140
    assert 300 < max(map(seconds, by_slave)) < 340
    assert len(pulled(events, 150, 290)) == 16
    assert simulation.truth.at(START + 200_000) == []


def test_nothing_is_written_where_there_is_no_master(with_slave: Run) -> None:
    _, events = with_slave
    stored = [send for send in between(events, SEND_LATENCIES, 102, 300) if "send_status" in send]
    assert {send["broker_name"] for send in stored} == {"broker-b"}
    ends = {pull["max_offset"] for pull in between(events, PULLS, 102, 300) if pull["queue_id"] == 0}
    assert len(ends) > 5
    at_a = [pull for pull in between(events, PULLS, 102, 300) if pull["broker_name"] == "broker-a"]
    for queue_id in range(8):
        assert len({pull["max_offset"] for pull in at_a if pull["queue_id"] == queue_id}) == 1


def test_the_list_that_is_reported_is_the_slaves_while_the_master_is_gone(with_slave: Run) -> None:
    _, events = with_slave
    at_a = [beat for beat in of(events, HEARTBEATS) if beat["broker_name"] == "broker-a"]
    consumers = [beat for beat in at_a if beat["consumers"]]
    masters = {beat["client_addr"] for beat in consumers if seconds(beat) < 100}
    slaves = {beat["client_addr"] for beat in consumers if 101 < seconds(beat) < 300}
    assert len(masters) == len(slaves) == 3
    assert not masters & slaves
    left = {beat["client_addr"] for beat in at_a if beat.get("leaving") and seconds(beat) == 100}
    assert masters <= left


def test_a_slave_is_neither_suggested_nor_serves_pulls_where_slave_reads_are_not_enabled() -> None:
    crash = {"at": 100, "until": 300, "action": "crash_broker", "broker_name": "broker-a", "broker_id": 0}
    press = {"at": 30, "until": 90, "action": "press_memory", "broker_name": "broker-a"}
    brokers = [{"broker_name": "broker-a", "slaves": 1}, "broker-b"]
    simulation, events = run(healthy(brokers=brokers, happenings=[press, crash]), duration_ms=300_000)
    assert {pull["suggest_broker_id"] for pull in of(events, PULLS)} == {0}
    assert {mq.broker_name for mq in pulled(events, 101, 300)} == {"broker-b"}
    assert simulation.truth.at(START + 200_000) == []


def test_a_busy_master_sends_a_group_to_its_slave_and_takes_it_back() -> None:
    _, events = run(
        healthy(
            brokers=[{"broker_name": "broker-a", "slaves": 1, "slave_read_enable": True}, "broker-b"],
            happenings=[{"at": 100, "until": 200, "action": "press_memory", "broker_name": "broker-a"}],
        )
    )
    pulls = [pull for pull in of(events, PULLS) if pull["broker_name"] == "broker-a"]
    assert {pull["suggest_broker_id"] for pull in pulls if 100 < seconds(pull) < 200} == {1}
    assert {pull["broker_id"] for pull in pulls if 120 < seconds(pull) < 200} == {1}
    assert {pull["broker_id"] for pull in pulls if seconds(pull) > 220} == {0}
    assert {pull["suggest_broker_id"] for pull in pulls if seconds(pull) < 100} == {0}


def test_a_crash_sets_offsets_back_for_whoever_takes_a_queue_anew() -> None:
    """A group that is down with its broker comes back to offsets of seconds ago, and consumes again."""
    stops = [{"at": 200, "action": "kill", "consumer": f"order-{n}"} for n in (1, 2, 3)]
    starts = [{"at": 360, "action": "start", "consumer": f"order-{n}"} for n in (1, 2, 3)]
    lose = [
        {"at": 200, "until": 350, "action": "lose_broker", "broker_name": name} for name in ("broker-a", "broker-b")
    ]
    scenario = healthy(happenings=[*lose, *stops, *starts])
    repeated = []
    for seed in range(3):
        _, events = run(scenario, seed)
        for name in ("broker-a", "broker-b"):
            for queue_id in range(8):
                of_queue = [
                    pull for pull in of(events, PULLS) if (pull["broker_name"], pull["queue_id"]) == (name, queue_id)
                ]
                last = [pull["pull_offset"] for pull in of_queue if seconds(pull) < 200][-1]
                first = next(pull for pull in of_queue if seconds(pull) > 360)
                repeated.append(last - first["pull_offset"])
    assert min(repeated) >= 0
    assert 0 < sum(repeated) < 16 * 3 * 10


def test_a_synchronous_master_of_4_9_8_reports_when_its_slave_is_gone() -> None:
    brokers = [
        {"broker_name": "broker-a", "broker_role": "SYNC_MASTER", "slaves": 1, "broker_version": "4.9.8"},
        "broker-b",
    ]
    stop = {"at": 100, "until": 200, "action": "stop_broker", "broker_name": "broker-a", "broker_id": 1}
    _, events = run(healthy(brokers=brokers, happenings=[stop]))
    statuses = {
        (send["broker_name"], 100 <= seconds(send) - send["latency_ms"] / 1000 < 200, send["send_status"])
        for send in of(events, SEND_LATENCIES)
    }
    assert statuses == {
        ("broker-a", False, "SEND_OK"),
        ("broker-a", True, "SLAVE_NOT_AVAILABLE"),
        ("broker-b", False, "SEND_OK"),
        ("broker-b", True, "SEND_OK"),
    }


def test_a_topic_is_made_where_the_first_messages_arrive_and_its_route_grows() -> None:
    scenario = healthy(topic_auto_create=True)
    _, events = run(scenario, duration_ms=120_000)
    sends, routes = of(events, SEND_LATENCIES), of(events, ROUTES)
    assert routes[0]["event_time_ms"] == sends[0]["event_time_ms"]
    counts = [len(route["queues"]) for route in routes]
    assert counts == sorted(counts)
    assert counts[0] == 1
    assert counts[-1] == 2
    assert {data["write_queue_nums"] for route in routes for data in route["queues"]} == {4}
    assert len(pulled(events, 90, 120)) == 8


def test_routes_are_said_again_every_30_seconds_whatever_changed_between() -> None:
    scale = {"at": 75, "action": "scale_topic", "topic": "orders", "queue_nums": 9}
    _, events = run(healthy(happenings=[scale]), duration_ms=200_000)
    assert [seconds(route) for route in of(events, ROUTES)] == [0, 30, 60, 75, 90, 120, 150, 180]
