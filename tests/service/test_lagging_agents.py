"""Clusters that agents alone feed, with events that come late: `run` keeps their time, and the rules tell the same."""

import pytest

from conf.settings import Settings
from streaming.service.clock_publisher import Asking, ClockPublisher
from streaming.simulator.conditions import Conditions
from streaming.simulator.scenario import load_scenario
from streaming.simulator.watched import Watched
from tests.lab.score.run import play
from tests.queries.logs import MINUTE, SECOND
from tests.simulator.modelled import START

pytestmark = pytest.mark.replay


def reported(scenario: str, lag_s: int) -> set[tuple[str, str]]:
    """Kind and cause of what ten minutes of agents' events report, each in Kafka so many seconds after it happened."""
    conditions = Conditions("agents", 5 * SECOND, lag_ms=lag_s * SECOND)
    rows = play(Watched(load_scenario(scenario), 1, START, conditions), 10 * MINUTE)
    return {(row["kind"], row["cause"]) for row in rows if row["fired_at"]}


@pytest.mark.parametrize("lag_s", [0, 35, 150, 600])
def test_what_starves_is_reported_however_late_the_agents_events_come(lag_s: int) -> None:
    found = reported("pull_stopped", lag_s)
    assert ("starved_queue", "pull_stopped") in found
    assert {kind for kind, _ in found} <= {"starved_queue", "stalled_queue", "clock_skew"}


@pytest.mark.parametrize("lag_s", [0, 25, 150, 600])
def test_nothing_is_reported_of_a_healthy_cluster_but_its_lag(lag_s: int) -> None:
    kinds = {kind for kind, _ in reported("healthy", lag_s)}
    assert kinds == ({"clock_skew"} if lag_s > 10 else set())


@pytest.mark.parametrize("off_s", [-3600, -150, -10, 10, 150, 3600])
def test_run_gives_kafkas_time_whatever_its_own_machine_says(off_s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.service.clock_publisher.wall_ms", lambda: START + off_s * SECOND)
    monkeypatch.setattr("streaming.service.clock_publisher._pace_ms", lambda: off_s * SECOND)
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
