"""How much gave data: shares of a group, and what may end an incident."""

from dataclasses import replace

import pytest

from tests.udfs.alerts.test_life import fired
from udfs.alerts.alert import Incident
from udfs.alerts.life import ON_HEARTBEATS, Coverage

NOW = 100_000


def see(
    brokers: str, without_data: str, beats: dict[str, int], missing: str = "", completeness_min: float = 0.7
) -> Coverage:
    return Coverage.of(
        NOW,
        brokers,
        frozenset(without_data),
        beats,
        frozenset(missing),
        late_ms=NOW - 70_000,
        completeness_min=completeness_min,
    )


def incident_of(kind: str, *, queues: tuple[str, ...] = (), broker_name: str | None = None) -> Incident:
    return replace(fired().incident, kind=kind, queues=queues, broker_name=broker_name, topic="orders")


@pytest.mark.parametrize(
    ("brokers", "without_data", "beats", "missing", "completeness"),
    [
        ("ab", "", {"x": NOW, "y": NOW}, "", 1.0),
        ("ab", "b", {"x": NOW, "y": NOW}, "", 0.5),
        ("abcd", "d", {"x": NOW}, "", 0.75),
        ("ab", "c", {"x": NOW}, "", 1.0),
        ("ab", "", {"x": NOW, "y": NOW - 70_000}, "", 0.5),
        ("ab", "b", {"x": NOW, "y": 0, "z": 0}, "", 0.3333),
        ("ab", "", {"x": NOW, "y": NOW, "z": NOW}, "z", 0.6667),
        ("ab", "", {"x": NOW}, "other", 1.0),
        ("", "", {}, "", 1.0),
    ],
)
def test_completeness_of_a_group_is_the_smallest_share(
    brokers: str, without_data: str, beats: dict[str, int], missing: str, completeness: float
) -> None:
    assert see(brokers, without_data, beats, missing).completeness == completeness


def test_an_incident_of_queues_needs_data_of_its_own_brokers_and_no_others() -> None:
    incident = incident_of("starved_queue", queues=("d:0", "a:1"))
    assert not see("abcd", "d", {"x": NOW}).evaluation(incident).is_seen
    assert see("abcd", "bc", {"x": NOW}).evaluation(incident).is_seen
    assert see("abcd", "d", {"x": NOW}).evaluation(incident).completeness == 0.5


def test_an_incident_of_queues_needs_data_of_its_own_queues_and_no_others() -> None:
    coverage = replace(see("ab", "", {"x": NOW}), queues_without_data=frozenset({("orders", "a:1"), ("bills", "a:0")}))
    assert not coverage.evaluation(incident_of("stalled_queue", queues=("a:0", "a:1"))).is_seen
    assert coverage.evaluation(incident_of("stalled_queue", queues=("a:0",))).is_seen


@pytest.mark.parametrize("kind", ["starved_queue", *sorted(ON_HEARTBEATS)])
def test_members_that_never_answer_keep_no_incident_open(kind: str) -> None:
    beats = {"x": NOW, "y": NOW, "z": NOW}
    assert see("ab", "", beats, "yz").evaluation(incident_of(kind, broker_name="a")).is_seen


@pytest.mark.parametrize("kind", sorted(ON_HEARTBEATS))
def test_an_incident_that_rests_on_heartbeats_needs_enough_of_them(kind: str) -> None:
    late = {"x": NOW, "y": NOW - 70_000}
    assert not see("ab", "", late).evaluation(incident_of(kind, broker_name="a")).is_seen
    assert see("ab", "", late, completeness_min=0.5).evaluation(incident_of(kind, broker_name="a")).is_seen
    assert see("ab", "", late).evaluation(incident_of("starved_queue", broker_name="a")).is_seen


def test_an_incident_that_names_no_broker_needs_enough_of_them() -> None:
    assert not see("bc", "c", {"x": NOW}).evaluation(incident_of("group_offline")).is_seen
    assert see("bc", "c", {"x": NOW}, completeness_min=0.5).evaluation(incident_of("group_offline")).is_seen
