"""Clusters that agents alone feed, with events that come late: `run` keeps their time, and the rules tell the same."""

from typing import Any

import pytest

from conf.settings import Settings
from schemas.events import CLOCKS
from streaming.service.clock_publisher import Asking, ClockPublisher, CollectorClocks
from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from tests.engine import Stream
from tests.queries.logs import MINUTE, SECOND, START

pytestmark = pytest.mark.replay

STEP_MS = 5 * SECOND


def run(scenario: str, lag_s: int, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Ten minutes of agents' events, each in Kafka so many seconds after it happened; batches and ticks every 5 s."""
    events = Simulation(load_scenario(scenario), 1, START).events(10 * MINUTE)
    sent = [(topic, event) for topic, event in events if topic != CLOCKS]
    _let_it_be(START + lag_s * SECOND, monkeypatch)
    keeper, stream, rows, place = ClockPublisher(Settings.load()), Stream(), [], 0
    for now_ms in range(START + lag_s * SECOND, START + lag_s * SECOND + 10 * MINUTE, STEP_MS):
        _let_it_be(now_ms, monkeypatch)
        arrived = []
        while place < len(sent) and sent[place][1]["event_time_ms"] + lag_s * SECOND <= now_ms:
            arrived.append(sent[place])
            place += 1
        arrived += [(CLOCKS, tick) for tick in keeper.ticks((now_ms - START) / 1000, now_ms)]
        reported = stream.feed(arrived, lambda _, now_ms=now_ms: now_ms)
        keeper.listen(reported)
        rows += reported.get("alerts", [])
    return rows


def _let_it_be(now_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.service.clock_publisher.wall_ms", lambda: now_ms)
    monkeypatch.setattr("streaming.service.clock_publisher._pace_ms", lambda: now_ms - START)
    monkeypatch.setattr("streaming.service.clock_publisher.time.monotonic", lambda: (now_ms - START) / 1000)


@pytest.mark.parametrize("lag_s", [0, 15, 35, 55, 90, 150, 600])
def test_what_starves_is_reported_however_late_the_agents_events_come(
    lag_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = run("pull_stopped", lag_s, monkeypatch)
    reported = {(row["kind"], row["cause"]) for row in rows if row["fired_at"]}
    assert ("starved_queue", "pull_stopped") in reported
    assert {kind for kind, _ in reported} <= {"starved_queue", "stalled_queue", "clock_skew"}


@pytest.mark.parametrize("lag_s", [0, 25, 45, 150, 600])
def test_nothing_is_reported_of_a_healthy_cluster_but_its_lag(lag_s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {row["kind"] for row in run("healthy", lag_s, monkeypatch) if row["fired_at"]}
    assert kinds == ({"clock_skew"} if lag_s > 10 else set())


def test_a_clock_that_lags_and_keeps_pace_is_missed_when_it_stops() -> None:
    clocks = CollectorClocks(0)
    for second in range(0, 100, 10):
        clocks.note("c", START + second * SECOND, START + (second + 3600) * SECOND)
    assert clocks.has("c")
    assert clocks.lag_ms("c") == 3_600_000
    silent_at = START + (90 + 3600) * SECOND + 60_000
    assert clocks.silent(silent_at - 1, 60_000) == {}
    assert clocks.silent(silent_at, 60_000) == {"c": []}


def test_a_slow_clock_is_silent_after_three_of_its_rounds() -> None:
    clocks = CollectorClocks(0)
    for second in range(0, 400, 75):
        clocks.note("c", START + second * SECOND, START + second * SECOND)
    assert clocks.silent(START + (375 + 224) * SECOND, 60_000) == {}
    assert clocks.silent(START + (375 + 225) * SECOND, 60_000) == {"c": []}


@pytest.mark.parametrize("off_s", [-3600, -150, -10, 10, 150, 3600])
def test_run_gives_kafkas_time_whatever_its_own_machine_says(off_s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _let_it_be(START + off_s * SECOND, monkeypatch)
    keeper = ClockPublisher(Settings.load())
    keeper.note_stamp(START + 40, keeper.now_ms())
    assert keeper.now_ms() == START + 40
    keeper.note_stamp(START + 900, START + off_s * SECOND)
    assert keeper.now_ms() == START + 40, "a late answer is no other clock"


def test_agents_of_which_one_reports_every_half_minute_ahead_of_the_others_keep_pace() -> None:
    """Routes come 125 s late, all else 150 s: the newest event is that of a route, and then for 25 s no newer one."""
    asking = Asking()
    for now in range(155, 300, 5):
        route_s = (now - 125) // 30 * 30 if (now - 125) % 30 < 5 else 0
        asking.note(now, START + max(route_s, now - 150) * SECOND, START + now * SECOND)
    assert asking.is_live


@pytest.mark.parametrize("times", [3, 10])
def test_a_past_that_is_poured_in_faster_than_life_keeps_no_pace(times: int) -> None:
    asking = Asking()
    for now in range(0, 300, 5):
        asking.note(now, START + now * times * SECOND, START + (4_000 + now) * SECOND)
    assert not asking.is_live
