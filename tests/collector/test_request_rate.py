"""The bound on what a server is asked a second, on a clock of the test's own."""

from itertools import pairwise

import pytest

from streaming.collector import rocketmq_admin
from streaming.collector.rocketmq_admin import BURST_SECONDS, RequestRate


class Sleeper:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.asked: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def ask(self, rate: RequestRate, server: str, times: int) -> None:
        for _ in range(times):
            rate.wait(server)
            self.asked.append(self.now)


@pytest.fixture
def sleeper(monkeypatch: pytest.MonkeyPatch) -> Sleeper:
    sleeper = Sleeper()
    monkeypatch.setattr(rocketmq_admin, "time", sleeper)
    return sleeper


@pytest.mark.parametrize("per_second", [10, 500, 3_333])
def test_no_second_has_more_questions_than_the_bound_and_its_burst(sleeper: Sleeper, per_second: int) -> None:
    rate = RequestRate(per_second)
    sleeper.ask(rate, "broker-a", per_second * 3)
    allowed = per_second * (1 + BURST_SECONDS) + 1
    assert (
        max(sum(at <= other < at + 1 for other in sleeper.asked) for at in sleeper.asked[:: per_second // 10])
        <= allowed
    )
    assert sleeper.asked[-1] - sleeper.asked[0] == pytest.approx(3, abs=0.3)


def test_who_asks_slower_never_waits_and_a_pause_saves_up_no_more_than_a_burst(sleeper: Sleeper) -> None:
    rate = RequestRate(100)
    for _ in range(20):
        sleeper.ask(rate, "broker-a", 1)
        sleeper.now += 0.02
    assert all(later - at == pytest.approx(0.02) for at, later in pairwise(sleeper.asked))
    sleeper.now += 3_600
    began = sleeper.now
    sleeper.ask(rate, "broker-a", 111)
    assert sleeper.now - began == pytest.approx(1.0)


def test_one_server_does_not_wait_for_another(sleeper: Sleeper) -> None:
    rate = RequestRate(10)
    sleeper.ask(rate, "broker-a", 30)
    began = sleeper.now
    sleeper.ask(rate, "broker-b", 1)
    assert sleeper.now == began


def test_what_was_asked_and_held_back_is_counted_once(sleeper: Sleeper) -> None:
    rate = RequestRate(10)
    sleeper.ask(rate, "broker-a", 5)
    sleeper.ask(rate, "name server", 1)
    assert rate.take_counts() == ({"broker-a": 5, "name server": 1}, {"broker-a": 3})
    assert rate.take_counts() == ({}, {})
