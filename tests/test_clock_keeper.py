"""When `run` keeps a cluster's time for it, and when it stops."""

import time
from typing import Any

import msgspec
import pytest

from conf.settings import Settings
from schemas.decode import decode
from schemas.events import CLOCKS
from streaming.clock_keeper import LIVE_MS, PATIENCE_SECONDS, ClockKeeper, clock_event
from streaming.queries.shard import CLOCK_WANTED


def asking(*, newest_ms: int | None = None, is_wanted: bool = True) -> dict[str, list[dict[str, Any]]]:
    now_ms = time.time_ns() // 1_000_000
    return {CLOCK_WANTED: [{"cluster": "c", "is_wanted": is_wanted, "newest_ms": newest_ms or now_ms}]}


@pytest.fixture
def keeper() -> ClockKeeper:
    return ClockKeeper(Settings.load())


def test_a_cluster_that_has_asked_long_enough_gets_ticks_for_its_brokers(keeper: ClockKeeper) -> None:
    keeper.listen(asking() | {"memberships": [{"cluster": "c", "broker_name": "broker-a"}]})
    now = time.monotonic()
    assert keeper.wanted(now) == []
    assert keeper.wanted(now + PATIENCE_SECONDS + 1) == [("c", ["broker-a"])]


def test_it_goes_on_when_all_agents_fall_silent_and_ends_when_another_clock_is_heard(keeper: ClockKeeper) -> None:
    keeper.listen(asking())
    later = time.monotonic() + 3_600
    assert keeper.wanted(later) == [("c", [])]
    keeper.listen(asking(is_wanted=False))
    assert keeper.wanted(later) == []


def test_the_time_of_a_replay_is_not_moved(keeper: ClockKeeper) -> None:
    keeper.listen(asking(newest_ms=time.time_ns() // 1_000_000 - LIVE_MS - 1_000))
    assert keeper.wanted(time.monotonic() + 3_600) == []


def test_its_tick_is_a_good_clock_event() -> None:
    event, reasons = decode(CLOCKS, msgspec.json.encode(clock_event("c", ["broker-a"], 5)), 5)
    assert reasons == []
    assert event.brokers_asked == event.brokers_answered == ["broker-a"]
