"""Who leaves while a broker gives no data has left there, too: the brokers that answer list it no more."""

from dataclasses import replace

import pytest

from tests.udfs.groups.facts import BOTH, A, B, Life, at
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.brokers.families import Families
from udfs.groups.state import GroupState

OLD, NEW = "cache-7d9f8c6b5-x2k9z", "cache-84cdbf7f9-pq7rt"
DEAD = BrokerCoverage(without_data=frozenset({"broker-b"}), answered=frozenset({"broker-a"}))


def group(name: str, *client_ids: str) -> Life:
    """A group of both brokers, well for 200 s; then broker-b gives no data any more."""
    life = Life(
        brokers=BOTH,
        queues=2,
        state=GroupState("DefaultCluster", name, at(0)),
        broker_coverage=BrokerCoverage(answered=frozenset(BOTH)),
    )
    for number, client_id in enumerate(client_ids):
        names = (
            [f"{broker}:{number}" for broker in BOTH]
            if len(client_ids) > 1
            else [f"{b}:{n}" for b in BOTH for n in (0, 1)]
        )
        life.start(f"h{number}:1", client_id, *names)
    assert life.run(200) == []
    life.cut |= {(f"h{number}:1", "broker-b") for number in range(len(client_ids))}
    life.broker_coverage = DEAD
    return life


def leave(life: Life, client_addr: str) -> None:
    """It unregisters; broker-b cannot tell."""
    del life.clients[client_addr]
    life.state.is_stale = life.state.membership.unregister("broker-a", client_addr, at(life.now)) is not None


def listed(life: Life, broker_name: str) -> set[str]:
    return {member.client_id for member in life.state.membership.views.get(broker_name, {}).values()}


def test_a_group_whose_process_was_replaced_while_a_broker_was_dead_is_no_page() -> None:
    life = group(OLD, A)
    leave(life, "h0:1")
    families = Families()
    for second in range(0, 200, 30):
        families.note("cache-7d9f8c6b5-bb4wl", at(second))
    families.note(NEW, at(190))
    life.broker_coverage = replace(DEAD, families=families)
    assert life.run(600) == []
    assert life.state.membership.is_empty()


def test_a_group_that_stops_while_a_broker_is_dead_is_offline() -> None:
    life = group("order-service", A)
    leave(life, "h0:1")
    said = [row[1:] for row in life.run(600)]
    assert ("group_offline", "FIRING", "group_offline") in said
    assert not [row for row in said if row[2] == "frozen_client"]


def test_who_an_answering_broker_lists_stays_at_the_one_that_is_not_heard() -> None:
    life = group("order-service", A, B)
    leave(life, "h1:1")
    life.take("h0:1", "broker-a:0", "broker-a:1")
    assert life.run(600) == []
    assert listed(life, "broker-b") == {A}


def test_where_no_broker_gives_data_no_client_has_left() -> None:
    life = group("order-service", A, B)
    life.broker_coverage = BrokerCoverage(without_data=frozenset(BOTH))
    leave(life, "h1:1")
    life.run(600)
    assert listed(life, "broker-b") == {A, B}


@pytest.mark.parametrize(
    "broker_coverage",
    [BrokerCoverage(without_data=frozenset({"broker-b"})), BrokerCoverage(silent=frozenset({"broker-b"}))],
)
def test_agents_report_every_heartbeat_so_a_client_that_unregistered_has_left(broker_coverage: BrokerCoverage) -> None:
    """Agents report no answers: a broker that is not silent lists its clients."""
    life = group("order-service", A, B)
    life.broker_coverage = broker_coverage
    leave(life, "h1:1")
    life.run(280)
    assert listed(life, "broker-b") == {A}
