"""The windows of a mute: days, midnight, zones, and the two nights on which clocks change."""

from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import hypothesis.strategies as st
import pytest
from hypothesis import assume, example, given

from conf.oncall import DAYS
from conf.oncall import Mute as MuteSettings
from streaming.relay.mutes import Mute, make_mutes
from streaming.text.times import iso, to_ms
from udfs.alerts.silence import pick_silence, pick_silence_throughout

BATCH = {"kind": "group_offline", "consumer_group": "batch-night"}
MINUTE = 60_000
HOUR = 60 * MINUTE

ZONES = ("UTC", "Europe/Berlin", "Asia/Shanghai", "Asia/Kathmandu", "America/St_Johns", "Australia/Lord_Howe")
CHANGES = [
    datetime(2026, 3, 29, 1, tzinfo=UTC),  # Berlin
    datetime(2026, 10, 25, 1, tzinfo=UTC),
    datetime(2026, 3, 8, 5, 30, tzinfo=UTC),  # St. John's
    datetime(2026, 10, 3, 15, 30, tzinfo=UTC),  # Lord Howe, half an hour
    datetime(2026, 7, 1, tzinfo=UTC),
]


def mute(from_: str, to: str, zone: str = "UTC", days: Any = DAYS, **keys: Any) -> Mute:
    given = {"match": {"consumer_group": "batch-*"}, "from": from_, "to": to, "time_zone": zone, "days": days} | keys
    (made,) = make_mutes([MuteSettings.model_validate(given)])
    return made


def at_ms(text: str) -> int:
    return to_ms(datetime.fromisoformat(text))


def is_muted(one: Mute, text: str) -> bool:
    return pick_silence([one], BATCH, at_ms(text)) is not None


def span(one: Mute, text: str) -> tuple[str, str]:
    window = one.next_window(at_ms(text))
    return iso(window.starts_at_ms, "minutes"), iso(window.ends_at_ms, "minutes")


def test_a_window_is_from_its_start_until_just_before_its_end_and_covers_what_matches() -> None:
    one = mute("09:00", "17:00")
    moments = ("08:59:59.999", "09:00:00", "16:59:59.999", "17:00:00")
    assert [is_muted(one, f"2026-07-01T{moment}Z") for moment in moments] == [False, True, True, False]
    assert pick_silence([one], {"consumer_group": "orders"}, at_ms("2026-07-01T12:00Z")) is None


def test_the_times_are_those_of_the_zone() -> None:
    one = mute("22:00", "06:00", "Asia/Shanghai", days=["mon"])
    assert span(one, "2026-07-06T00:00Z") == ("2026-07-06T14:00Z", "2026-07-06T22:00Z")
    window = one.next_window(at_ms("2026-07-06T15:00Z"))
    assert (window.created_by, window.comment) == ("[[mutes]]", "22:00 to 06:00 Asia/Shanghai, mon")
    assert window.silence_id == "mute 'consumer_group=batch-*' until 2026-07-07T06:00+08:00"
    assert mute("22:00", "06:00", name="night").next_window(0).silence_id.startswith("mute 'night' until 1970-01-01T06")


@pytest.mark.parametrize(
    ("from_", "to", "spring", "autumn"),
    [
        # Spring: 02:00 CET is 03:00 CEST, at 01:00 UTC on March 29. Autumn: 03:00 CEST is 02:00 CET, at 01:00 UTC on
        # October 25. Dates in the second halves are those days in UTC.
        ("22:00", "06:00", ("28T21:00", "29T04:00"), ("24T20:00", "25T05:00")),  # 7 hours, 9 hours
        ("02:15", "02:45", ("29T00:15", "29T01:45"), ("25T00:15", "25T01:45")),  # never comes; comes twice
        ("02:30", "03:10", ("29T00:30", "29T01:10"), ("25T00:30", "25T02:10")),
        ("01:00", "02:30", ("29T00:00", "29T01:30"), ("24T23:00", "25T01:30")),
        ("23:00", "02:30", ("28T22:00", "29T01:30"), ("24T21:00", "25T01:30")),
    ],
)
def test_a_change_of_the_clocks_loses_no_window(
    from_: str, to: str, spring: tuple[str, str], autumn: tuple[str, str]
) -> None:
    one = mute(from_, to, "Europe/Berlin")
    for (start, end), month in ((spring, "2026-03"), (autumn, "2026-10")):
        assert span(one, f"{month}-{start}:00Z") == (f"{month}-{start}Z", f"{month}-{end}Z")


def wall_clock_says(one: Mute, now_ms: int) -> bool:
    """The definition, without instants: the time lies within the window of this day, or of the day before."""
    now = datetime.fromtimestamp(now_ms / 1000, one.zone)
    clock, today, yesterday = now.time(), now.weekday(), (now - timedelta(days=1)).weekday()
    if one.from_time < one.to_time:
        return today in one.weekdays and one.from_time <= clock < one.to_time
    return (today in one.weekdays and clock >= one.from_time) or (yesterday in one.weekdays and clock < one.to_time)


clocks = st.times().map(lambda found: found.replace(second=0, microsecond=0))
weekdays = st.frozensets(st.integers(0, 6), min_size=1)


@given(st.sampled_from(ZONES), clocks, clocks, weekdays, st.sampled_from(CHANGES), st.integers(-72 * 60, 72 * 60))
@example("Europe/Berlin", time(2, 30), time(3, 10), frozenset({6}), CHANGES[0], 5)
@example("Europe/Berlin", time(2, 15), time(2, 45), frozenset({6}), CHANGES[1], 40)
def test_each_moment_whose_wall_clock_time_lies_within_the_window_is_muted(
    zone: str, from_: time, to: time, days: frozenset[int], near: datetime, minutes: int
) -> None:
    """And no other one, but next to a change of the clocks."""
    assume(from_ != to)
    one = Mute("m", {}, days, from_, to, ZoneInfo(zone))
    now_ms = to_ms(near) + minutes * MINUTE
    offsets = {datetime.fromtimestamp(now_ms / 1000 + hour * 3600, one.zone).utcoffset() for hour in range(-50, 51)}
    is_open = one.at(now_ms) is not None
    assert is_open >= wall_clock_says(one, now_ms)
    if len(offsets) == 1:
        assert is_open == wall_clock_says(one, now_ms)


@given(st.sampled_from(ZONES), clocks, clocks, weekdays, st.sampled_from(CHANGES), st.integers(-72 * 60, 72 * 60))
def test_the_next_window_is_near_and_never_hides_for_longer_than_a_day(
    zone: str, from_: time, to: time, days: frozenset[int], near: datetime, minutes: int
) -> None:
    """A day, and what the clocks are set by at both of its ends."""
    assume(from_ != to)
    one = Mute("m", {}, days, from_, to, ZoneInfo(zone))
    now_ms = to_ms(near) + minutes * MINUTE
    window = one.next_window(now_ms)
    assert now_ms < window.ends_at_ms <= now_ms + 9 * 24 * HOUR
    assert 0 < window.ends_at_ms - window.starts_at_ms <= 26 * HOUR
    assert one.at(window.ends_at_ms - 1) == window
    if window.starts_at_ms > now_ms:
        assert one.at(now_ms) is one.at(window.starts_at_ms - 1) is None


@pytest.mark.parametrize("now_ms", [to_ms(datetime(1, 1, 1, tzinfo=UTC)), -1, 253_402_300_799_999])
def test_a_row_of_an_impossible_time_is_in_no_window(now_ms: int) -> None:
    one = mute("00:00", "23:59")
    assert one.at(now_ms) is None
    assert pick_silence_throughout([one], BATCH, now_ms, now_ms + 1) is None
