"""Whose clock is out of step, by lags alone."""

from udfs.brokers.skew import CLOCK, HEARTBEATS, Lag, Skew


def skew_of(*windows: tuple[int, int, int]) -> Skew:
    """Of one collector's clock events: a window's number, and their least and greatest lag in it."""
    skew = Skew()
    for window, least_ms, greatest_ms in windows:
        skew.note(Lag("c", CLOCK, "collector", window, least_ms, greatest_ms))
        skew.note(Lag("c", HEARTBEATS, "broker-a", window, least_ms))
    skew.settle()
    return skew


def test_a_past_that_is_poured_in_over_the_end_of_a_window_is_no_clock_that_is_behind() -> None:
    """Its lags happen to be alike in the two windows for a moment, and shrink within each."""
    skew = skew_of((1, 365_000, 480_000), (2, 359_000, 364_000))
    assert (skew.base_ms, skew.behind_ms(), skew.out_of_step(5_000, frozenset())) == (None, 0, {})
    assert skew.shift_ms(HEARTBEATS, "broker-a", 5_000) == 0


def test_heartbeats_of_a_broker_that_misses_rounds_are_as_old_as_they_are_apart_and_its_clock_is_right() -> None:
    """Its only rounds of two windows came half a minute after its clients' heartbeats, by chance."""
    skew = skew_of((1, 0, 0), (2, 0, 0))
    for window in (1, 2):
        skew.note(Lag("c", HEARTBEATS, "broker-b", window, 24_000 + window))
    assert skew.out_of_step(10_000, frozenset()) == {"broker": {"broker-b": -24_001}}
    skew.missed = ["broker-b"]
    assert skew.out_of_step(10_000, frozenset()) == {}
    assert skew.shift_ms(HEARTBEATS, "broker-b", 10_000) == 0
    skew.note(Lag("c", HEARTBEATS, "broker-b", 1, 95_000))
    skew.lags[f"{HEARTBEATS} broker-b"] = {1: 95_000, 2: 95_000}
    assert skew.out_of_step(10_000, frozenset()) == {"broker": {"broker-b": -95_000}}


def test_a_clock_whose_events_all_lag_by_as_much_is_behind() -> None:
    skew = skew_of((1, 359_000, 361_000), (2, 359_500, 360_500))
    assert skew.behind_ms() == 359_000
    assert skew.out_of_step(5_000, frozenset())["collector"] == {"collector": -359_000}


def test_a_clock_that_is_behind_is_known_although_rounds_are_far_apart() -> None:
    """Otherwise a broker 95 s behind seems to have no pulls for that long, and a queue to have stopped."""
    skew = skew_of((1, 0, 0), (7, 0, 0))
    for window in (1, 7):
        skew.note(Lag("c", HEARTBEATS, "broker-b", window, 95_000))
        skew.note(Lag("c", HEARTBEATS, "broker-c", window, 60_000))
    assert skew.out_of_step(180_000, frozenset()) == {"broker": {"broker-b": -95_000}}
    assert skew.shift_ms(HEARTBEATS, "broker-b", 180_000) == 95_000
    assert skew.shift_ms(HEARTBEATS, "broker-c", 180_000) == 0
