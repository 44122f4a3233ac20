"""A group is calm while its queues are pulled as they should be and its brokers give data, up to a deadline."""

import pytest

from tests.udfs.groups.facts import RULES, A, B, Life, at, play, two_clients
from udfs.alerts.rules import FORGET_GROUP_MS
from udfs.brokers.broker_coverage import BrokerCoverage, Unasked


def is_calm(life: Life) -> bool:
    return life.outcomes[-1][1].is_calm


def test_a_healthy_group_is_calm_until_a_pull_or_a_heartbeat_is_late() -> None:
    life = two_clients()
    assert is_calm(life)
    assert life.outcomes[-1][1].due_ms == at(120) + RULES.pull_silence_ms
    life.run(145)
    assert life.outcomes[-1][1].due_ms == at(140) + RULES.pull_silence_ms


@pytest.mark.parametrize(
    "happens",
    [
        "start h3:1 A",
        "start h3:1 C",
        "take h1:1 0-4",
        "take h1:1; to 170",
        "freeze h1:1; to 170",
        "pulls broker_id=1 suggest_broker_id=1",
        "no_data broker-a",
        "leave h2:1; take h1:1 0-7; to 140",
    ],
)
def test_a_group_that_something_happens_to_is_looked_at_at_the_next_tick(happens: str) -> None:
    life = two_clients()
    play(life, happens)
    life.run(life.now + 10)
    assert not is_calm(life)
    assert life.outcomes[-1][1].due_ms == at(life.now) + 1


@pytest.mark.parametrize(
    ("broker_name", "group", "calm"), [("broker-a", "order-service", False), ("broker-b", "other", True)]
)
def test_missing_data_of_another_group_is_no_unrest(broker_name: str, group: str, calm: bool) -> None:
    life = two_clients()
    life.broker_coverage = BrokerCoverage(unasked=(Unasked(broker_name, group, None, "refused", at(120)),))
    life.run(130)
    assert is_calm(life) is calm


def test_a_queue_that_changed_hands_is_calm_again_when_its_old_owner_is_forgotten() -> None:
    life = two_clients()
    play(life, "leave h2:1; take h1:1 0-7; to 200")
    assert is_calm(life)


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
