"""Which brokers are lost with a collector that has stopped."""

from tests.udfs.groups.facts import at
from udfs.brokers.rounds import Rounds, Tick


def note(rounds: Rounds, source: str, second: int, *brokers: str) -> None:
    asked = frozenset(brokers)
    rounds.note(Tick(at(second), asked, asked, is_own=False, source=source, interval_ms=75_000))


def test_brokers_that_another_collector_asked_later_are_not_lost_when_they_leave_service() -> None:
    rounds = Rounds()
    note(rounds, "old", 0, "a", "b", "c")
    note(rounds, "new", 75, "a", "b", "c")
    note(rounds, "new", 150, "a", "b")
    assert not rounds.lost_brokers("old", at(450))


def test_brokers_that_only_a_stopped_collector_asked_are_lost() -> None:
    rounds = Rounds()
    for second in (0, 75, 150):
        note(rounds, "first", second, "a", "b")
        note(rounds, "second", second + 5, "a", "c")
    note(rounds, "second", 600, "a", "c")
    assert rounds.lost_brokers("first", at(600)) == {"b"}
