"""A group is calm while its queues are pulled as they should be and its brokers give data, up to a deadline."""

from collections.abc import Callable

import pytest

from tests.udfs.groups.facts import RULES, A, B, C, Life, at, two_clients
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


def start_a_twin(life: Life) -> None:
    life.start("h3:1", A)


def take_another_queue(life: Life) -> None:
    life.take("h1:1", 0, 1, 2, 3, 4)


def stop_pulling(life: Life) -> None:
    life.take("h1:1")
    life.run(170)


def freeze(life: Life) -> None:
    life.freeze("h1:1")
    life.run(170)


def read_from_a_slave(life: Life) -> None:
    life.pulls = {"broker_id": 1, "suggest_broker_id": 1}


def miss_the_broker(life: Life) -> None:
    life.broker_coverage = BrokerCoverage(frozenset({"broker-a"}))


def refuse_the_group(life: Life) -> None:
    life.broker_coverage = BrokerCoverage(unasked=(Unasked("broker-a", "order-service", None, "refused", at(120)),))


def join(life: Life) -> None:
    life.start("h3:1", C)


@pytest.mark.parametrize(
    "happen",
    [
        start_a_twin,
        take_another_queue,
        stop_pulling,
        freeze,
        read_from_a_slave,
        miss_the_broker,
        refuse_the_group,
        join,
    ],
)
def test_a_group_that_something_happens_to_is_looked_at_at_the_next_tick(happen: Callable[[Life], None]) -> None:
    life = two_clients()
    happen(life)
    life.run(life.now + 10)
    assert not is_calm(life)
    assert life.outcomes[-1][1].due_ms == at(life.now) + 1


def test_a_client_of_another_groups_that_was_not_asked_is_no_unrest() -> None:
    life = two_clients()
    life.broker_coverage = BrokerCoverage(unasked=(Unasked("broker-b", "other", None, "refused", at(120)),))
    life.run(130)
    assert is_calm(life)


def test_a_queue_that_changed_hands_is_calm_again_when_its_old_owner_is_forgotten() -> None:
    life = two_clients()
    life.leave("h2:1")
    life.take("h1:1", *range(8))
    life.run(150)
    assert not is_calm(life)
    life.run(200)
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
