"""A second group in the same processes: happenings of a process hit both groups, those of one consumer do not."""

import pytest

from schemas.events import HEARTBEATS
from streaming.simulator import Conditions, Scenario, Simulation, Watched, load_scenario, scenario_names
from streaming.simulator.beside import SECOND_GROUP, SECOND_TOPIC, with_second_group
from tests.simulator.modelled import SECOND, START, of, run

OF_PROCESS = {
    "twins": "duplicate_client_id",
    "three_twins": "duplicate_client_id",
    "frozen_client": "frozen_client",
    "lost_host": "frozen_client",
    "split_view": "split_view",
    "group_offline": "group_offline",
}
OF_ONE_CONSUMER = (
    "hung_listener",
    "pull_stopped",
    "suspended",
    "stale_route",
    "mixed_strategy",
    "member_not_subscribed",
    "consume_disabled",
    "write_only_queues",
)


def with_second(name: str) -> Scenario:
    return with_second_group(load_scenario(name))


def causes_of(simulation: Simulation, consumer_group: str) -> set[str]:
    lasting = (span for span in simulation.truth if simulation.truth.lasted_ms(span) > 15 * SECOND)
    return {span.cause for span in lasting if span.consumer_group == consumer_group and not span.is_harmless}


@pytest.mark.parametrize(("name", "cause"), OF_PROCESS.items())
def test_queues_of_both_groups_starve_when_their_process_is_hit(name: str, cause: str) -> None:
    simulation, _ = run(with_second(name))
    assert (causes_of(simulation, "order-service"), causes_of(simulation, SECOND_GROUP)) == ({cause}, {cause})
    starved = (one for one in simulation.expected if (one.consumer_group, one.kind) == (SECOND_GROUP, "starved_queue"))
    assert [(one.cause, one.topic, one.required) for one in starved] == [(cause, SECOND_TOPIC, False)]


@pytest.mark.parametrize("name", OF_ONE_CONSUMER)
def test_a_happening_of_one_consumer_leaves_the_second_group_alone(name: str) -> None:
    simulation, _ = run(with_second(name))
    assert causes_of(simulation, "order-service")
    assert causes_of(simulation, SECOND_GROUP) == set()
    assert [one for one in simulation.expected if one.consumer_group == SECOND_GROUP and one.required] == []


def test_a_nano_time_makes_a_second_client_id_in_the_same_process_and_without_one_the_client_is_shared() -> None:
    def groups_by_client(name: str) -> dict[str, set[str]]:
        _, events = run(with_second(name), duration_ms=40 * SECOND)
        groups: dict[str, set[str]] = {}
        for beat in of(events, HEARTBEATS):
            for consumer in beat["consumers"]:
                groups.setdefault(beat["client_id"], set()).add(consumer["consumer_group"])
        return groups

    shared = groups_by_client("twins")
    assert set(shared) == {"172.17.0.2@7", "172.17.0.3@7"}
    assert all(groups == {"order-service", SECOND_GROUP} for groups in shared.values())
    apart = groups_by_client("frozen_client")
    assert sorted(map(sorted, apart.values())) == [["order-service"]] * 3 + [[SECOND_GROUP]] * 3
    assert len({client_id.split("#")[0] for client_id in apart}) == 3


def test_expectations_of_processes_and_brokers_come_to_the_second_group_too() -> None:
    def required(name: str) -> list[tuple[str, str | None]]:
        expects = with_second(name).expects
        return [(one.kind, one.client_id) for one in expects if one.consumer_group == SECOND_GROUP and one.required]

    assert required("twins_instance_name") == [("duplicate_client_id", "10.20.0.11@orders")]
    assert required("split_view") == [("split_view", None)]
    assert required("group_offline") == [("group_offline", None)]
    assert required("master_down") == [("slave_read", None)]
    assert required("tags_differ") == []


def test_every_scenario_takes_a_second_group_except_where_no_member_rebalances() -> None:
    without = {name for name in scenario_names() if with_second(name) == load_scenario(name)}
    assert without == {"assign", "broadcasting", "grpc_offline", "pop", "pop_offline", "proxy", "rollout_groups"}
    assert all(one.is_harmless for one in run(with_second("shared_process"))[0].truth)


def test_consumers_of_one_client_hang_apart() -> None:
    scenario = load_scenario("stopped_process")
    stop = scenario.happenings[0]
    hangs = (stop.model_copy(update={"action": "hang_listener"}), stop.model_copy(update={"consumer": "bill-1"}))
    simulation, _ = run(scenario.model_copy(update={"happenings": hangs}))
    assert causes_of(simulation, "order-service") == {"consume_stopped"}
    assert causes_of(simulation, "bill-service") == {"pull_stopped"}


def test_conditions_hit_a_process_with_both_its_clients() -> None:
    conditions = Conditions("collector", mute_clients=0.3)
    mute = Watched(load_scenario("frozen_client"), 1, START, conditions, second_group=True).suspects.mute
    assert len(mute) == 2
    assert len({client_id.split("#")[0] for client_id in mute}) == 1
