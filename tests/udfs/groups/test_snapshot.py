"""What an evaluation of a group rests on: who is late, and where."""

from tests.udfs.groups.facts import RULES, A, B, ConsumerData, Heartbeat, at
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.groups.snapshot import GroupSnapshot, NotAsked
from udfs.groups.state import GroupState


def test_a_client_that_is_only_listed_is_never_late_and_one_whose_heartbeats_are_reported_is() -> None:
    state = GroupState("c", "order-service", at(0))
    state.membership.register(Heartbeat(A, "h1:1", at(30), is_listed_only=True), ConsumerData())
    state.membership.register(Heartbeat(B, "h2:1", at(30)), ConsumerData())
    late = {now: GroupSnapshot(state, {}, at(now), BrokerCoverage(), NotAsked(), RULES).late for now in (60, 500)}
    assert late == {60: frozenset(), 500: {B}}
