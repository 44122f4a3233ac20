"""Scenarios whose happenings the rounds of a collector report in their own way, and what their clients do."""

from typing import Any

import pytest

from schemas.events import CLOCKS, HEARTBEATS, PULLS, SEND_LATENCIES
from streaming.simulator.scenario import load_scenario
from tests.lab.score.truth import TrueWatch
from tests.simulator.modelled import SECOND, START, between, mq_of, of, run, seconds

pytestmark = pytest.mark.replay

Events = list[tuple[str, dict[str, Any]]]


def watch(name: str, *, second_group: bool = False) -> tuple[TrueWatch, Events]:
    watched = TrueWatch(load_scenario(name), 1, START, second_group=second_group)
    return watched, [(topic, event) for topic, event, _ in watched.said()]


def test_all_messages_of_a_burst_wait_for_a_hung_listener_and_no_message_follows() -> None:
    simulation, events = run("burst_hung", duration_ms=400 * SECOND)
    hung = {span.mq for span in simulation.truth if span.cause == "consume_stopped"}
    assert len(hung) == 3
    for mq in hung:
        offsets = simulation.brokers[mq.broker_name].nodes[0].offsets
        end = simulation.max_offset(mq.topic, mq.broker_name, mq.queue_id)
        assert end - offsets.query_offset("order-service", mq) == 40_000 // 8
    assert of(events, SEND_LATENCIES) == []
    ends = {(mq_of(pull), pull["max_offset"]) for pull in between(events, PULLS, 200, 400)}
    assert len(ends) == len({mq for mq, _ in ends})


@pytest.mark.parametrize("second_group", [False, True])
def test_a_collector_is_renamed_and_leaves_a_broker_without_topics_out_once_it_is_down(second_group: bool) -> None:
    _, events = watch("collector_renamed", second_group=second_group)
    clocks = of(events, CLOCKS)
    names = [clock["collector"] for clock in clocks]
    assert sorted(set(names)) == ["pod-1/10.20.2.9:9876", "pod-2/10.20.2.9:9876"]
    assert names == sorted(names)
    asked = {seconds(clock): "broker-c" in clock["brokers_asked"] for clock in clocks}
    assert next(at for at, is_asked in asked.items() if not is_asked) == pytest.approx(420, abs=5)
    assert all(clock["brokers_asked"] == clock["brokers_answered"] for clock in clocks)


def test_a_member_that_never_answers_has_heartbeats_and_no_pulls() -> None:
    watched, events = watch("mute_member")
    assert watched.conditions.view == "collector"
    silent = "10.20.0.14@order-service"
    unheard = {one["client_id"] for clock in of(events, CLOCKS) for one in clock.get("unheard", ())}
    assert unheard == {silent}
    assert silent not in {pull["client_id"] for pull in of(events, PULLS)}
    assert any(pull["client_id"] is None and pull["offsets_only"] for pull in of(events, PULLS))
    assert silent in {beat["client_id"] for beat in of(events, HEARTBEATS)}


def test_offsets_of_a_topic_begin_at_0_when_it_is_created_again() -> None:
    _, events = watch("topic_recreated")
    before, after = between(events, PULLS, 100, 205), between(events, PULLS, 270, 600)
    assert min(pull["max_offset"] for pull in before) > 900
    assert max(pull["max_offset"] for pull in after) < 300
    assert all(pull["commit_offset"] <= pull["max_offset"] for pull in after)


def test_agents_alone_report_pulls_of_clients_that_list_no_queues() -> None:
    _, events = watch("agents_removed")
    times = [seconds(pull) for pull in of(events, PULLS) if pull["consumer_group"] == "export-job"]
    assert 300 < max(times) < 325
    assert max(seconds(pull) for pull in of(events, PULLS) if pull["consumer_group"] == "order-service") > 890
    kinds = {
        beat["consumers"][0]["consume_type"] for beat in of(events, HEARTBEATS) if beat["client_id"][:9] == "10.20.0.2"
    }
    assert kinds == {"CONSUME_ACTIVELY"}


def test_a_distant_producer_takes_longer_to_every_broker_and_its_sends_succeed() -> None:
    _, events = run("far_producer", duration_ms=120 * SECOND)
    sends = of(events, SEND_LATENCIES)
    far = [send for send in sends if send["client_id"].startswith("10.90")]
    assert {send["broker_name"] for send in far} == {"broker-a", "broker-b"}
    assert all(700 <= send["latency_ms"] < 800 and send["send_status"] == "SEND_OK" for send in far)
    assert max(send["latency_ms"] for send in sends if send not in far) < 100
