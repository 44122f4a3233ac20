"""What producers told that waits for a tick: bounded, the drop told once, and judged where nothing more comes."""

import pytest

from tests.support.rules import default_rules
from tests.udfs.producers.sends import MINUTE, SECOND, START, Send, Tick, every, feed
from udfs.alerts.alert import Transition
from udfs.alerts.life import Reason
from udfs.brokers.cluster_findings import end_drop
from udfs.producers import fleet as fleet_module
from udfs.producers.fleet import RUNS, Fleet, alerts_of_drop, drop_oldest, time_of_log

RULES = default_rules()


def runs_of(fleet: Fleet) -> list[int]:
    """When each run that waits began, in seconds."""
    return sorted(
        (step.from_ms - START) // SECOND for of in fleet.waiting.values() for one in of.values() for step in one.steps
    )


def waiting(runs: int, client_id: str = "p0") -> Fleet:
    """One slow send in six seconds to one of two brokers, and nobody keeps the time."""
    fleet = Fleet()
    sends = [Send(6_000 * one, client_id, f"broker-{one % 2}", latency_ms=900) for one in range(1, runs + 1)]
    feed(fleet, sends, RULES)
    return fleet


def test_beyond_their_number_the_oldest_runs_go_and_a_quarter_more_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "MOST_RUNS", 40)
    fleet = waiting(40)
    assert drop_oldest(fleet) == 0
    feed(fleet, [Send(300_000, "p1", latency_ms=900)], RULES)
    assert drop_oldest(fleet) == 11
    assert runs_of(fleet) == [*range(72, 241, 6), 300]
    assert drop_oldest(fleet) == 0


def test_as_many_at_one_moment_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "MOST_RUNS", 40)
    fleet = Fleet()
    feed(fleet, [Send(1_000, f"p{number}") for number in range(1_000)], RULES)
    assert drop_oldest(fleet) == 970
    assert sum(map(len, fleet.waiting.values())) == 30


def test_long_names_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "MOST_BYTES", 100_000)
    fleet = Fleet()
    feed(fleet, [Send(1_000, f"{number:0255}") for number in range(1_000)], RULES)
    drop_oldest(fleet)
    assert 50 < sum(map(len, fleet.waiting.values())) < 125


def drops_of(fleet: Fleet, cluster: str = "c") -> list[Transition]:
    dropped = drop_oldest(fleet)
    return list(alerts_of_drop(fleet, cluster, dropped, RULES)) if dropped else []


def test_a_drop_is_reported_once_until_a_tick_comes_and_its_end_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "MOST_RUNS", 40)
    fleet = waiting(41)
    (reported,) = drops_of(fleet)
    assert (reported.state, reported.incident.kind, reported.incident.cause) == (
        "FIRING",
        "cluster_no_data",
        "events_dropped",
    )
    assert reported.incident.labels == {"cluster": "c", "events": "sends"}
    assert "The oldest 11 runs of sends of cluster c" in str(reported.incident.text.summary)
    assert (reported.incident.started_at_ms - START) // SECOND == 72
    feed(fleet, every(6 * SECOND, 5 * MINUTE, 8 * MINUTE, "p0", latency_ms=900), RULES)
    assert drops_of(fleet) == []
    assert fleet.dropped == 41
    feed(fleet, [Tick(9 * MINUTE)], RULES)
    (over,) = end_drop(fleet, fleet.judged_ms, RUNS)
    assert (over.state, over.reason) == ("RESOLVED", Reason.DATA_RETURNED)
    assert str(over.incident.text.summary).endswith("41 runs of sends were dropped in total.")
    assert list(end_drop(fleet, fleet.judged_ms, RUNS)) == []


def test_a_log_without_a_tick_is_over_at_the_moment_after_its_newest_send() -> None:
    fleet = waiting(10)
    assert time_of_log(fleet, 120_000, is_whole=True) == START + 60_000
    assert time_of_log(fleet, 120_000, is_whole=False) == START + 60_000
    assert time_of_log(Fleet(), 120_000, is_whole=True) == 0


@pytest.mark.parametrize(("last_s", "is_whole", "until_s"), [(170, True, 50), (171, True, 175), (900, False, 50)])
def test_a_log_whose_ticks_end_goes_on_without_them_only_where_they_are_long_gone(
    last_s: int, is_whole: bool, until_s: int
) -> None:
    fleet = Fleet()
    feed(fleet, [Tick(50_000), Send(last_s * SECOND, "p0")], RULES)
    assert time_of_log(fleet, 121_000, is_whole=is_whole) == START + until_s * SECOND
