"""What a tick costs, counted in looks: a healthy group is looked at seldom, and a repetition looks at nothing."""

from collections import Counter
from typing import Any

import pytest

from schemas.events import CLOCKS
from streaming.queries import tick as tick_module
from tests.queries.drawn_log import BROKERS, DrawnLog
from tests.queries.events import Event, by_ticks
from tests.queries.logs import SECOND, START
from tests.support.engine import Stream

pytestmark = pytest.mark.replay

MINUTES = 7


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Second → the looks at any group at its tick."""
    sound, counted = tick_module.tick, Counter[int]()

    def tick(state: Any, routes: Any, now_ms: int, *arguments: Any) -> Any:
        counted[(now_ms - START) // SECOND] += 1
        return sound(state, routes, now_ms, *arguments)

    monkeypatch.setattr(tick_module, "tick", tick)
    return counted


def healthy(groups: int, round_ms: int = 5_000) -> list[Event]:
    """Groups of three clients on two brokers that live as they should, and nothing happens."""
    log = DrawnLog(1, groups, trouble=0, minutes=MINUTES, noise=0)
    log.round_ms, log.are_two, log.queues["orders"] = round_ms, False, 8
    for name, clients in log.clients.items():
        clients.clear()
        for number in range(3):
            client = log._client(name, ["orders"])
            client.name, client.brokers, client.reported = f"{name}@{number}", 2, {}
            clients.append(client)
    return log.events()


def alerts_of(events: list[Event]) -> list[Any]:
    """Of a live stream: a batch a tick."""
    return Stream().feed_each(by_ticks(events)).get("alerts", [])


def late(looks: Counter[int], since_s: int = 60) -> dict[int, int]:
    """The looks after a group's first minute."""
    return {second: count for second, count in looks.items() if second >= since_s}


def test_a_healthy_group_is_looked_at_a_few_times_in_its_first_minute_and_then_no_more(looks: Counter[int]) -> None:
    assert alerts_of(healthy(1)) == []
    assert sum(looks.values()) <= 6
    assert max(looks) < 60


@pytest.mark.parametrize(
    ("promise", "groups", "round_ms", "late_ms", "since_s"),
    [
        ("many healthy groups are no reason to look at any of them", 8, 5_000, 0, 60),
        ("a pull may be older where rounds are far apart than a silence is where they are close", 2, 60_000, 0, 200),
        ("a round that comes some milliseconds late looks at nothing", 2, 31_000, 90, 200),
    ],
)
def test_healthy_groups_are_not_looked_at(
    looks: Counter[int], promise: str, groups: int, round_ms: int, late_ms: int, since_s: int
) -> None:
    events = healthy(groups, round_ms)
    for number, clock in enumerate(one for topic, one in events if topic == CLOCKS):
        clock["event_time_ms"] -= number * 37 % late_ms if late_ms else 0
    assert {row["kind"] for row in alerts_of(events)} <= ({"slow_collector"} if round_ms > 30_000 else set())
    assert late(looks, since_s) == {}, promise


def test_a_client_that_falls_silent_makes_its_own_group_be_looked_at_and_no_other(looks: Counter[int]) -> None:
    events = healthy(4)
    groups = {one["consumer_group"] for _, one in events if "consumer_group" in one}
    assert len(groups) == 4
    silent = f"{min(groups)}@0"
    end_ms = START + 300 * SECOND
    reported = [one for one in events if one[1].get("client_id") != silent or one[1]["event_time_ms"] < end_ms]
    assert {row["consumer_group"] for row in alerts_of(reported)} == {min(groups)}
    assert set(late(looks).values()) == {1}
    assert min(late(looks)) >= 300


def test_a_broker_that_misses_a_round_makes_its_groups_be_looked_at_until_it_is_heard(looks: Counter[int]) -> None:
    events = healthy(3)
    rounds = [one for topic, one in events if topic == CLOCKS and one["event_time_ms"] >= START + 300 * SECOND]
    rounds[0]["brokers_answered"] = [BROKERS[0]]
    assert alerts_of(events) == []
    times = [(one["event_time_ms"] - START) // SECOND for one in rounds]
    assert late(looks) == {times[0]: 3, times[1]: 3}


def test_a_pull_of_another_client_makes_its_group_be_looked_at(looks: Counter[int]) -> None:
    events = healthy(2)
    groups = sorted({one["consumer_group"] for _, one in events if "consumer_group" in one})
    for _, one in events:
        if (
            one.get("consumer_group") == groups[0]
            and START + 300 * SECOND <= one["event_time_ms"] < START + 310 * SECOND
        ):
            one["client_addr"], one["client_id"] = "10.9.9.9:1", "another@1"
    alerts_of(events)
    assert set(late(looks).values()) == {1}
    assert 300 <= min(late(looks)) <= 305
    assert max(late(looks)) < 380
