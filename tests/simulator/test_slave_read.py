"""Slave reads: when an answer suggests a slave, and which node a client asks."""

import pytest

from streaming.simulator.broker import MASTER_ID
from streaming.simulator.consumer import recalculate_pull_from_which_node
from tests.simulator.modelled import healthy, run


@pytest.mark.parametrize(("slave_read_enable", "is_pressed"), [(False, True), (True, False), (True, True)])
def test_a_slave_is_suggested_and_serves_pulls_only_where_that_is_allowed(
    slave_read_enable: bool, is_pressed: bool
) -> None:
    fields = {"broker_name": "broker-a", "slaves": 1, "slave_read_enable": slave_read_enable}
    simulation, _ = run(healthy(brokers=[fields, "broker-b"]), duration_ms=1_000)
    broker = simulation.brokers["broker-a"]
    broker.set_memory_pressed(is_pressed)
    assert broker.suggested_broker_id == (1 if slave_read_enable and is_pressed else MASTER_ID)
    assert [node.may_pull for node in broker.nodes.values()] == [True, slave_read_enable]


@pytest.mark.parametrize(
    ("suggested", "broker_ids", "asked"),
    [
        (0, {0, 1}, 0),
        (1, {0, 1}, 1),
        (1, {0, 2}, 2),
        (1, {0}, 0),
        (1, {0, 3}, 0),
        (0, {1, 2}, 1),
        (2, {0, 1}, 0),
        (0, set(), None),
    ],
)
def test_a_client_asks_the_suggested_node_or_another_of_the_route(
    suggested: int, broker_ids: set[int], asked: int | None
) -> None:
    assert recalculate_pull_from_which_node(suggested, broker_ids) == asked


def test_up_to_4_7_1_a_missing_slave_is_not_replaced_by_the_next() -> None:
    assert recalculate_pull_from_which_node(1, {0, 2}, (4, 7, 1)) == 0
    assert recalculate_pull_from_which_node(1, {0, 2}, (4, 8, 0)) == 2
