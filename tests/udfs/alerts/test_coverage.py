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


LATE, ALL = {"x": NOW, "y": NOW - 70_000}, {"x": NOW, "y": NOW, "z": NOW}
OF_QUEUES = incident_of("starved_queue", queues=("d:0", "a:1"))
AT_A = [incident_of(kind, broker_name="a") for kind in sorted(ON_HEARTBEATS)]

# Why; what is known; the incident; whether it may end.
SEEN: list[tuple[str, Coverage, Incident, bool]] = [
    ("queues without a broker of their own", see("abcd", "d", {"x": NOW}), OF_QUEUES, False),
    ("without other brokers", see("abcd", "bc", {"x": NOW}), OF_QUEUES, True),
    ("queues do not need heartbeats", see("ab", "", LATE), incident_of("starved_queue", broker_name="a"), True),
    *(("heartbeats that are late", see("ab", "", LATE), incident, False) for incident in AT_A),
    *(("enough heartbeats", see("ab", "", LATE, completeness_min=0.5), incident, True) for incident in AT_A),
    *(("members that never answer", see("ab", "", ALL, "yz"), incident, True) for incident in [OF_QUEUES, *AT_A]),
    ("no broker of its own needs enough", see("bc", "c", {"x": NOW}), incident_of("group_offline"), False),
    ("of them", see("bc", "c", {"x": NOW}, completeness_min=0.5), incident_of("group_offline"), True),
]


@pytest.mark.parametrize(("reason", "coverage", "incident", "is_seen"), SEEN, ids=[row[0] for row in SEEN])
def test_an_incident_ends_by_data_of_what_it_names_alone(
    reason: str, coverage: Coverage, incident: Incident, is_seen: bool
) -> None:
    assert coverage.evaluation(incident).is_seen is is_seen, reason


def test_the_completeness_of_an_incident_of_queues_is_that_of_their_brokers() -> None:
    assert see("abcd", "d", {"x": NOW}).evaluation(OF_QUEUES).completeness == 0.5


def test_an_incident_of_queues_needs_data_of_its_own_queues_and_no_others() -> None:
    coverage = replace(see("ab", "", {"x": NOW}), queues_without_data=frozenset({("orders", "a:1"), ("bills", "a:0")}))
    assert not coverage.evaluation(incident_of("stalled_queue", queues=("a:0", "a:1"))).is_seen
    assert coverage.evaluation(incident_of("stalled_queue", queues=("a:0",))).is_seen
