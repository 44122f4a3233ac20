"""Whose clock is out of step, by lags alone."""

from udfs.brokers.cluster_findings import find_skew
from udfs.brokers.cluster_state import ClusterState
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


def test_heartbeats_of_rounds_that_no_accepted_clock_dates_may_be_as_old_as_a_round_takes() -> None:
    """The only collector's clock is 95 s ahead: its clock events are refused, and with them their interval."""
    cluster_state = ClusterState(ahead={"collector": (1_000, 95_000)})

    def found(windows: tuple[int, int], lag_ms: int) -> dict[str, object]:
        for window in windows:
            cluster_state.skew.note(Lag("c", HEARTBEATS, "broker-a", window, lag_ms))
        return {str(one.cause): one.evidence["ahead_ms"] for one in find_skew(cluster_state, "c", 2_000)}

    assert found((1, 2), 26_075) == {"clock_ahead": {"collector": 95_000}}
    assert found((3, 4), 70_000)["clock_out_of_step"] == {"broker-a": -70_000}
