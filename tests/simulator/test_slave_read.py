"""Slave reads: when an answer suggests a slave; tests/lab/oracle/test_rebalance.py plays which node a client asks."""

import pytest

from streaming.simulator.broker import MASTER_ID
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
