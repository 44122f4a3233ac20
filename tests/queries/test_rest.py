"""Rests between batches: none for a busy stream, until the next tick for a quiet one."""

import pytest

from streaming.queries.running import MARGIN_S, Rest, TickSeen

KAFKA_AHEAD_S = 1_000.0


class Quiet:
    """A cluster with a tick every `every_s` and `rate` events a second; plays the batches that a rest leaves."""

    def __init__(self, every_s: float, rate: float, sends: int = 0, most_s: float = 5.0) -> None:
        self.rest = Rest(most_s)
        self.every_s, self.rate, self.sends = every_s, rate, sends
        self.now_s = 100.0
        self.batches: list[float] = []
        self.waits: list[float] = []

    def play(self, seconds: float) -> None:
        end_s, read_s, tick_s = self.now_s + seconds, self.now_s, self.now_s + 0.7
        while self.now_s < end_s:
            began_s = self.now_s
            self.batches.append(began_s)
            ticks = []
            while tick_s <= began_s:
                ticks.append(TickSeen("c", "t", round((tick_s + KAFKA_AHEAD_S) * 1000)))
                self.waits.append(began_s - tick_s)
                tick_s += self.every_s
            self.now_s += 0.3
            events = round((began_s - read_s) * self.rate)
            read_s = began_s
            self.now_s += self.rest.after(began_s, self.now_s, events, self.sends, ticks)


@pytest.mark.parametrize("every_s", [5.0, 10.0])
def test_a_quiet_stream_has_little_more_than_a_batch_a_tick_which_waits_for_none(every_s: float) -> None:
    quiet = Quiet(every_s, 22)
    quiet.play(200)
    quiet.batches, quiet.waits = [], []
    quiet.play(300)
    assert len(quiet.batches) <= 1.3 * 300 / min(every_s, 5.0)
    assert max(quiet.waits) <= 0.6
    assert sum(quiet.waits) / len(quiet.waits) <= 4 * MARGIN_S


def test_a_busy_stream_never_rests() -> None:
    busy = Quiet(5, 1_000)
    assert [busy.rest.after(at, at + 0.3, 400, 300, ()) for at in (1.0, 1.4, 1.8)] == [0, 0, 0]


def test_sends_wait_a_second_at_the_most() -> None:
    quiet = Quiet(5, 22, sends=3)
    quiet.play(60)
    assert max(after - before for before, after in zip(quiet.batches, quiet.batches[1:], strict=False)) <= 1.31


def test_where_nobody_keeps_the_time_a_rest_is_short() -> None:
    rest = Rest(5)
    assert [rest.after(at, at + 0.3, 1, 0, ()) for at in (1.0, 3.0)] == [0, 1]


def test_a_tick_that_is_overdue_is_looked_for_and_one_that_stays_away_is_given_up() -> None:
    quiet = Quiet(5, 22)
    quiet.play(60)
    now_s, rests = quiet.now_s, []
    for _ in range(200):
        rests.append(quiet.rest.after(now_s, now_s + 0.3, 5, 0, ()))
        now_s += 0.3 + rests[-1]
    assert rests.count(0.25) >= 20
    assert rests[-1] == 1


def test_none_is_taken_where_none_is_set() -> None:
    quiet = Quiet(5, 22, most_s=0)
    quiet.play(10)
    assert len(quiet.batches) > 30
