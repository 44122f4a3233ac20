"""Every scenario that comes with the package: it plays, keeps the contract, and starves what its file declares."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from schemas.decode import decode
from schemas.events import CLOCKS, EVENTS, PULLS
from streaming.simulator.scenario import load_scenario, parse_scenario, scenario_names
from tests.lab.score.expectations import causes_of, expectations_of
from tests.lab.score.truth import TrueSimulation
from tests.simulator.modelled import MINUTE, SECOND, START, mq_of, of, run
from tests.support.plays import Play, each_play
from tests.support.tiers import in_proof
from udfs.rocketmq.model import MessageQueue

pytestmark = pytest.mark.replay

TELLING = ("churn", "locally_ordered", "master_down", "order_lock_lost", "pop", "slow_broker")
"""Together they roll every die of the model: starts, networks, scans, keys, replicas, locks, pops, jitters."""

LONGEST_HARMLESS_MS = 130 * SECOND
"""A replaced channel is listed until it expires: 120 s after its last heartbeat, and up to 10 s to the next scan."""


@each_play
def test_every_event_keeps_its_contract(play: Play) -> None:
    for topic, event in play.events:
        _, reasons = decode(topic, msgspec.json.encode(event), event["event_time_ms"])
        assert reasons == []
        assert event.keys() <= set(EVENTS[topic].by_name)


@each_play
def test_time_never_goes_back_and_the_clock_comes_last(play: Play) -> None:
    order = [(event["event_time_ms"], topic == CLOCKS) for topic, event in play.events]
    assert order == sorted(order)
    clocks = [clock["event_time_ms"] - START for clock in of(play.events, CLOCKS)]
    interval_ms = play.scenario.clock_interval_ms
    assert clocks == list(range(interval_ms, clocks[-1] + 1, interval_ms))


@each_play
def test_offsets_of_a_pull_make_sense(play: Play) -> None:
    newest: Counter[MessageQueue] = Counter()
    is_recreated = any(happening.action == "recreate_topic" for happening in play.scenario.happenings)
    for pull in of(play.events, PULLS):
        assert 0 <= pull.get("commit_offset", 0) <= pull["pull_offset"] <= pull["max_offset"]
        assert pull["max_offset"] >= newest[mq_of(pull)] or is_recreated
        newest[mq_of(pull)] = pull["max_offset"]


@each_play
def test_queues_starve_for_the_causes_the_file_declares_and_no_others(play: Play) -> None:
    truth = play.simulation.truth
    required = {one.cause for one in play.expects if one.kind == "starved_queue" and one.required}
    assert required <= truth.causes(longer_than_ms=15 * SECOND)
    assert truth.causes(longer_than_ms=SECOND) <= causes_of(play.scenario)


@each_play
def test_queues_are_doubled_where_the_file_says_so(play: Play) -> None:
    truth = play.simulation.truth
    expected = {one.required for one in play.expects if one.kind == "double_consumed_queue"}
    is_doubled = any(not one.is_harmless and truth.lasted_ms(one) > MINUTE for one in truth.doubled)
    assert is_doubled or True not in expected
    assert expected or not is_doubled


@each_play
def test_what_is_healthy_starves_only_for_as_long_as_clients_need_to_settle(play: Play) -> None:
    truth = play.simulation.truth
    if play.scenario.healthy:
        assert all(one.is_harmless for one in truth)
        assert all(one.is_harmless for one in truth.doubled)
    longest_ms = max((truth.lasted_ms(one) for one in truth if one.is_harmless), default=0)
    assert longest_ms <= LONGEST_HARMLESS_MS


@pytest.mark.parametrize("name", [*TELLING, *in_proof(sorted({*scenario_names()} - {*TELLING}))])
def test_a_seed_gives_the_same_bytes_again_and_another_seed_others(name: str) -> None:
    def bytes_of(seed: int) -> bytes:
        return msgspec.json.encode(run(name, seed, MINUTE)[1])

    assert bytes_of(7) == bytes_of(7)
    assert bytes_of(7) != bytes_of(8)


def test_a_file_says_what_happens_and_expects_something_or_is_healthy() -> None:
    scenarios = {name: load_scenario(name) for name in scenario_names()}
    assert [name for name, one in scenarios.items() if not one.description.endswith(".")] == []
    required = {name for name, one in scenarios.items() if any(each.required for each in expectations_of(one))}
    assert [name for name, one in scenarios.items() if one.healthy == (name in required)] == []


def test_what_is_expected_begins_before_the_scenario_ends() -> None:
    too_late = [
        (name, expected.kind)
        for name in scenario_names()
        for scenario in [load_scenario(name)]
        for expected in expectations_of(scenario)
        if scenario.duration_seconds and expected.from_ + scenario.jitter >= scenario.duration_seconds
    ]
    assert too_late == []


def test_what_was_read_can_be_written_and_read_again() -> None:
    scenarios = {name: load_scenario(name) for name in scenario_names()}
    assert [name for name, one in scenarios.items() if parse_scenario(one.model_dump()) != one] == []


def test_the_causes_are_all_there() -> None:
    """Each cause of starvation that has a name is declared by a scenario."""
    declared: set[str] = set().union(*(causes_of(load_scenario(name)) for name in scenario_names()))
    assert declared == {
        "duplicate_client_id", "member_not_subscribed", "mixed_strategy", "split_view", "stale_route",
        "frozen_client", "pull_stopped", "order_lock", "write_only_queue", "consume_disabled", "group_offline",
        "strategy_gap", "consume_stopped",
    }  # fmt: skip


def test_a_seed_shifts_what_happens_and_what_is_expected_alike() -> None:
    starts = set()
    for seed in range(5):
        simulation, _ = run("pull_stopped", seed, 3 * MINUTE)
        (expected,) = (one for one in simulation.expected if one.kind == "starved_queue")
        starved = {one.start_ms for one in simulation.truth if one.cause == "pull_stopped"}
        assert starved == {expected.start_ms}
        starts.add(expected.start_ms)
    assert len(starts) == 5
    assert all(START + 90 * SECOND <= start_ms < START + 110 * SECOND for start_ms in starts)


@pytest.mark.proof
def test_days_of_a_healthy_cluster_are_quiet() -> None:
    """The scenario `churn`, half a day of it: one event a second, and nothing that may be paged."""
    simulation = TrueSimulation(load_scenario("churn"), 3, START)
    counts: Counter[str] = Counter()
    joined: set[Any] = set()
    for topic, event in simulation.events(12 * 60 * MINUTE):
        counts[topic] += 1
        if topic.endswith("heartbeats"):
            joined.add(event["client_addr"])
    assert 0.5 < counts.total() / (12 * 3600) < 1.5
    assert len(joined) > 20
    assert simulation.truth.causes() == frozenset()
    assert {one.cause for one in simulation.truth} == {"rebalance", "reconnect"}
