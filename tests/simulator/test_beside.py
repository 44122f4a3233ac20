"""What goes on beside a scenario: hung, suspended and slow listeners, and roll-outs by size and way; its truth."""

from collections import Counter
from itertools import pairwise

import pytest

from schemas.events import PULLS
from streaming.simulator.conditions import GROUP, TOPIC, ConditionsError, with_beside
from streaming.simulator.scenario import load_scenario
from tests.lab.score.truth import TrueSimulation
from tests.simulator.modelled import SECOND, START, Events, between, of

pytestmark = pytest.mark.replay


def play(beside: str) -> tuple[TrueSimulation, Events]:
    simulation = TrueSimulation(with_beside(load_scenario("healthy"), beside), 1, START)
    return simulation, [one for one in simulation.events() if one[1].get("topic") == TOPIC]


def test_slow_listeners_with_full_caches_hardly_pull_and_consume_all_the_time() -> None:
    simulation, events = play("slow")
    assert {one.cause for one in simulation.truth} == {"rebalance"}
    pulls = [pull for pull in of(events, PULLS) if pull["broker_name"] == "broker-a"]
    late = [pull for pull in pulls if pull["event_time_ms"] > START + 400 * SECOND]
    assert max(b["event_time_ms"] - a["event_time_ms"] for a, b in pairwise(late)) > 120 * SECOND
    assert all(pull["pull_offset"] - pull["commit_offset"] >= 1000 for pull in late)
    assert all(a["commit_offset"] < b["commit_offset"] for a, b in pairwise(late))


@pytest.mark.parametrize(
    ("beside", "cause", "seconds", "is_pulled"),
    [("hung", "consume_stopped", 660, True), ("suspended", "pull_stopped", 420, False)],
)
def test_queues_of_a_hung_or_suspended_consumer_starve_and_the_hung_one_continues_to_pull(
    beside: str, cause: str, seconds: int, is_pulled: bool
) -> None:
    simulation, events = play(beside)
    starved = [one for one in simulation.truth if one.cause == cause]
    assert {one.consumer_group for one in starved} == {GROUP}
    assert len({one.mq for one in starved}) == 2
    assert all(abs(simulation.truth.lasted_ms(one) - seconds * SECOND) <= 2 * SECOND for one in starved)
    pulls = between(events, PULLS, 140, 500)
    assert any(pull["client_id"].startswith("10.40.0.1@") for pull in pulls) == is_pulled


@pytest.mark.parametrize(
    "beside",
    ["rollout 20 one_by_one stable", "rollout 20 surge new", "rollout 20 quarters new", "rollout 4 surge groups"],
)
def test_a_rollout_replaces_every_pod_and_harms_nobody(beside: str) -> None:
    simulation, events = play(beside)
    assert {one.cause for one in simulation.truth} <= {"rebalance"}
    pods = int(beside.split()[1])
    clients = Counter(pull["client_id"] for pull in of(events, PULLS))
    assert len(clients) == pods * (1 if "stable" in beside else 2)
    assert len(list(simulation.consumers())) == pods + 3
    groups = {pull["consumer_group"] for pull in of(events, PULLS)}
    assert len(groups) == (2 * pods if "groups" in beside else 1)


@pytest.mark.parametrize("beside", ["", "hang", "rollout 0 surge new", "rollout 20 surge stable", "rollout 20 surge"])
def test_what_cannot_go_on_beside_is_refused(beside: str) -> None:
    with pytest.raises(ConditionsError, match="beside"):
        with_beside(load_scenario("healthy"), beside)
