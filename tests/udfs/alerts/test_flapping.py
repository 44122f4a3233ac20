"""Flapping: comings in a window of 21 slots, newer ones weigh more, two thresholds; whatever the period."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.alerts.life import MOST_COMINGS, SLOTS, Window

MINUTE = 60_000
START = 1000 * MINUTE


def window_of(*comings: float, until: float | None = None) -> Window:
    """A window whose alert came at these minutes, for ten seconds each; looked at last at `until`."""
    window = Window()
    for minute in comings:
        window.note(START + round(minute * MINUTE), MINUTE, is_on=True)
        window.note(START + round(minute * MINUTE) + 10_000, MINUTE, is_on=False)
    if until is not None:
        window.note(START + round(until * MINUTE), MINUTE, is_on=False)
    return window


def test_an_alert_that_stays_on_came_once() -> None:
    window = Window()
    for minute in range(60):
        window.note(START + minute * MINUTE, MINUTE, is_on=True)
    assert window.comings == []
    assert window.share() == 0


def test_a_newer_coming_weighs_half_as_much_again_as_the_oldest() -> None:
    window = Window([START], now_ms=START, span_ms=SLOTS * MINUTE)
    assert round(window.share(), 6) == round(2 * 1.2 / 20, 6)
    assert round(window_of(0, until=SLOTS - 0.001).share(), 4) == round(2 * 0.8 / 20, 4)


@pytest.mark.parametrize("apart", [0.5, 1, 1.97, 2, 5, 10, 10.4])
def test_the_third_coming_within_21_minutes_flaps_however_far_apart_they_are(apart: float) -> None:
    assert not window_of(0, apart).judge(0.25, 0.1)
    assert window_of(0, apart, 2 * apart).judge(0.25, 0.1)


def test_it_ends_when_it_came_at_most_once_and_not_lately() -> None:
    window = window_of(0, 5, 10)
    window.judge(0.25, 0.1)
    for minute in range(11, 26):
        window.note(START + minute * MINUTE, MINUTE, is_on=False)
        assert window.judge(0.25, 0.1)
    window.note(START + 26 * MINUTE + 1, MINUTE, is_on=False)
    assert not window.judge(0.25, 0.1)


@pytest.mark.parametrize("on", [10, 20, 40, 60])
def test_no_period_comes_a_fourth_time_within_21_minutes_before_it_flaps(on: int) -> None:
    """Looked at every 10 s: 38 s of each 118 s are on in every slot of a minute, and off at some look, too."""
    for period in range(on + 10, 631, 10):
        window, fresh = Window(), 0
        for second in range(0, SLOTS * 60, 10):
            is_on = second % period < on
            fresh += is_on and not window.is_on and not window.is_flapping
            window.note(START + second * 1000, MINUTE, is_on=is_on)
            window.judge(0.25, 0.1)
        assert fresh <= 3, period


@given(looks=st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=200))
def test_a_window_is_bounded_whatever_happens(looks: list[tuple[int, bool]]) -> None:
    window, second = Window(), 0
    for passed, is_on in looks:
        second += passed
        window.note(START + second * 1000, MINUTE, is_on=is_on)
        assert len(window.comings) <= MOST_COMINGS
        assert 0 <= window.share() <= 1
