"""A second group in the same processes: happenings of a process hit both groups, those of one consumer do not."""

import pytest

from streaming.simulator.conditions import Conditions
from streaming.simulator.scenario import load_scenario, scenario_names
from tests.lab.score.expectations import expectations_of
from tests.lab.score.second_group import SECOND_GROUP, with_second_group
from tests.lab.score.truth import TrueSimulation, TrueWatch
from tests.simulator.modelled import SECOND, START, run


def causes_of(simulation: TrueSimulation, consumer_group: str) -> set[str]:
    lasting = (span for span in simulation.truth if simulation.truth.lasted_ms(span) > 15 * SECOND)
    return {span.cause for span in lasting if span.consumer_group == consumer_group and not span.is_harmless}


@pytest.mark.parametrize(
    ("name", "cause", "second_cause", "required"),
    [
        ("twins_instance_name", "duplicate_client_id", "duplicate_client_id", ["duplicate_client_id"]),
        ("frozen_client", "frozen_client", "frozen_client", []),
        ("split_view", "split_view", "split_view", ["split_view"]),
        ("group_offline", "group_offline", "group_offline", ["group_offline"]),
        ("hung_listener", "consume_stopped", None, []),
        ("stale_route", "stale_route", None, []),
        ("consume_disabled", "consume_disabled", None, []),
    ],
)
def test_a_happening_of_a_process_hits_both_groups_and_one_of_a_consumer_its_own(
    name: str, cause: str, second_cause: str | None, required: list[str]
) -> None:
    scenario = with_second_group(load_scenario(name))
    simulation, _ = run(scenario)
    assert cause in causes_of(simulation, "order-service")
    assert causes_of(simulation, SECOND_GROUP) == ({second_cause} if second_cause else set())
    of_second = [one for one in expectations_of(scenario) if one.consumer_group == SECOND_GROUP]
    assert [one.kind for one in of_second if one.required] == required


def test_every_scenario_takes_a_second_group_except_where_no_member_rebalances() -> None:
    scenarios = {name: load_scenario(name) for name in scenario_names()}
    without = {name for name, scenario in scenarios.items() if with_second_group(scenario) == scenario}
    assert without == {"assign", "broadcasting", "grpc_offline", "pop", "pop_offline", "proxy", "rollout_groups"}


def test_consumers_of_one_client_hang_apart() -> None:
    scenario = load_scenario("stopped_process")
    stop = scenario.happenings[0]
    hangs = (stop.model_copy(update={"action": "hang_listener"}), stop.model_copy(update={"consumer": "bill-1"}))
    simulation, _ = run(scenario.model_copy(update={"happenings": hangs}))
    assert causes_of(simulation, "order-service") == {"consume_stopped"}
    assert causes_of(simulation, "bill-service") == {"pull_stopped"}


def test_conditions_hit_a_process_with_both_its_clients() -> None:
    conditions = Conditions("collector", mute_clients=0.3)
    mute = TrueWatch(load_scenario("frozen_client"), 1, START, conditions, second_group=True).suspects.mute
    assert len(mute) == 2
    assert len({client_id.split("#")[0] for client_id in mute}) == 1
