"""How much gave data: shares of brokers and clients, and what may end."""

import pytest

from tests.udfs.alerts.test_life import fired
from udfs.alerts.coverage import Coverage

NOW = 100_000


def see(brokers: str, without_data: str, beats: dict[str, int], completeness_min: float = 0.7) -> Coverage:
    return Coverage.of(
        NOW, brokers, frozenset(without_data), beats, late_ms=NOW - 70_000, completeness_min=completeness_min
    )


@pytest.mark.parametrize(
    ("brokers", "without_data", "beats", "completeness"),
    [
        ("ab", "", {"x": NOW, "y": NOW}, 1.0),
        ("ab", "b", {"x": NOW, "y": NOW}, 0.5),
        ("abcd", "d", {"x": NOW}, 0.75),
        ("ab", "c", {"x": NOW}, 1.0),
        ("ab", "", {"x": NOW, "y": NOW - 70_000}, 0.5),
        ("ab", "b", {"x": NOW, "y": 0, "z": 0}, 0.3333),
        ("", "", {}, 1.0),
    ],
)
def test_completeness_is_the_smaller_share(
    brokers: str, without_data: str, beats: dict[str, int], completeness: float
) -> None:
    assert see(brokers, without_data, beats).completeness == completeness


def test_below_the_threshold_nothing_may_end() -> None:
    incident = fired().incident
    assert see("ab", "", {"x": NOW}).evaluation(incident).is_seen
    assert not see("bc", "c", {"x": NOW}).evaluation(incident).is_seen
    assert see("bc", "c", {"x": NOW}, completeness_min=0.5).evaluation(incident).is_seen


def test_an_incident_of_a_broker_that_is_not_heard_may_not_end_however_much_else_is() -> None:
    incident = fired(queues=("d:0", "a:1")).incident
    assert not see("abcd", "d", {"x": NOW}).evaluation(incident).is_seen
    assert see("abcd", "b", {"x": NOW}).evaluation(incident).is_seen
    assert see("abcd", "d", {"x": NOW}).evaluation(None).is_seen
