"""A group is calm while its queues are pulled as they should be and its brokers give data, up to a deadline.

The rest: tests/golden/groups.txt.
"""

import pytest

from tests.udfs.groups.facts import RULES, A, B, Life, at, two_clients
from udfs.alerts.rules import FORGET_GROUP_MS
from udfs.brokers.broker_coverage import BrokerCoverage, Unasked


def is_calm(life: Life) -> bool:
    return life.outcomes[-1][1].is_calm


@pytest.mark.parametrize(
    ("broker_name", "group", "calm"), [("broker-a", "order-service", False), ("broker-b", "other", True)]
)
def test_missing_data_of_another_group_is_no_unrest(broker_name: str, group: str, calm: bool) -> None:
    life = two_clients()
    life.broker_coverage = BrokerCoverage(unasked=(Unasked(broker_name, group, None, "refused", at(120)),))
    life.run(130)
    assert is_calm(life) is calm


def test_the_first_sign_of_members_that_differ_needs_no_looks_until_it_is_reported() -> None:
    """A broker that answers and lists nobody, where the other lists both: told when that has settled."""
    life = Life(brokers=("broker-a", "broker-b"), cut={("h1:1", "broker-b"), ("h2:1", "broker-b")})
    life.broker_coverage = BrokerCoverage(answered=frozenset({"broker-a", "broker-b"}))
    life.start("h1:1", A, *(f"broker-a:{number}" for number in range(8)))
    life.start("h2:1", B, *(f"broker-b:{number}" for number in range(8)))
    life.run(20)
    assert is_calm(life)
    assert {incident.state for incident in life.state.incidents.values()} == {"PENDING"}
    assert {condition for condition in life.state.conditions if condition.startswith("split_view")}
    reported = next(now for now, outcome in life.outcomes if outcome.transitions)
    life.run(reported + RULES.settle_ms / 1000)
    assert not life.outcomes[-2][1].transitions
    assert [row.state for row in life.outcomes[-1][1].transitions] == ["FIRING"]


def test_a_group_that_was_left_is_looked_at_for_as_long_as_any_hold_and_then_when_it_is_given_up() -> None:
    life = two_clients()
    life.leave("h1:1")
    life.leave("h2:1")
    life.run(1_000)
    assert life.outcomes[-1][1].due_ms == at(1_000) + 1
    life.run(3_600)
    assert life.outcomes[-1][1].due_ms == life.state.changed_ms + FORGET_GROUP_MS
