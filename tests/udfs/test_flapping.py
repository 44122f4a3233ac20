"""Flapping as Nagios counts it: 21 slots, newer changes weigh more, two thresholds."""

from hypothesis import given
from hypothesis import strategies as st

from udfs.flapping import SLOTS, Window

MINUTE = 60_000


def window_of(states: str) -> Window:
    """A window that was looked at once a minute."""
    window = Window()
    for minute, state in enumerate(states, 1000):
        window.note(minute * MINUTE, MINUTE, is_on=state == "1")
    return window


def test_no_change_is_no_flapping_and_change_in_every_slot_is_all_of_it() -> None:
    assert window_of("1" * 40).share() == 0
    assert round(window_of("01" * 40).share(), 6) == 1


def test_a_newer_change_weighs_half_as_much_again_as_the_oldest() -> None:
    old, new = window_of("0" + "1" * 20).share(), window_of("0" * 20 + "1").share()
    assert round(old, 6) == round(0.8 / 20, 6)
    assert round(new, 6) == round(1.2 / 20, 6)


def test_it_begins_above_the_high_threshold_and_ends_below_the_low_one() -> None:
    window = window_of("0" * 15 + "101010")
    assert window.share() > 0.25
    assert window.judge(0.25, 0.1)
    window = window_of("0" * 12 + "1000010000")
    assert not window.judge(0.25, 0.1)
    window.is_flapping = True
    assert window.judge(0.25, 0.1)
    assert not window_of("1" * 21).judge(0.25, 0.1)


def test_a_slot_counts_as_on_when_it_fired_at_any_look_in_it() -> None:
    window = Window()
    for second in (0, 20, 40):
        window.note(1000 * MINUTE + second * 1000, MINUTE, is_on=second == 20)
    assert window.slots[-1] == "1"


def test_slots_that_nobody_looked_in_are_as_they_were_left() -> None:
    window = window_of("1")
    window.note(1005 * MINUTE, MINUTE, is_on=False)
    assert window.slots[-6:] == "111110"


def test_a_window_is_over_when_nothing_of_it_is_left() -> None:
    window = window_of("10")
    assert not window.is_over()
    window.note((1002 + SLOTS) * MINUTE, MINUTE, is_on=False)
    assert window.is_over()


@given(looks=st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=80))
def test_a_window_is_bounded_whatever_happens(looks: list[tuple[int, bool]]) -> None:
    window, minute = Window(), 1000
    for passed, is_on in looks:
        minute += passed
        window.note(minute * MINUTE, MINUTE, is_on=is_on)
        assert len(window.slots) == SLOTS
        assert 0 <= window.share() <= 1.0000001
        assert not is_on or window.slots[-1] == "1"
