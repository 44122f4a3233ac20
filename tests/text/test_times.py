"""Moments and spans as people write them."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from conf.section import duration_ms
from streaming.text.times import (
    DAY,
    HOUR,
    MINUTE,
    ago,
    both_times,
    clock,
    iso,
    parse_moment,
    span,
    span_text,
    time_text,
)

NOW_MS = 1_750_000_000_000
"""2025-06-15T15:06:40Z, 17:06:40 in Berlin"""

NOON_MS = 1_795_262_400_000
"""2026-11-21T12:00:00Z"""

Zone = Callable[[str], None]


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "span_ms"), [("250ms", 250), ("90s", 90_000), ("5m", 300_000), ("2h", 7_200_000), ("1d", 86_400_000)]
)
def test_a_span_is_a_number_and_a_unit(text: str, span_ms: int) -> None:
    assert duration_ms(text) == span_ms
    assert parse_moment(text, NOW_MS) == NOW_MS - span_ms
    assert parse_moment(text, NOW_MS, is_ahead=True) == NOW_MS + span_ms


@pytest.mark.parametrize(
    "text",
    ["", "2", "h", "-2h", "2w", "1.5h", "9999999999s", "²h", "24:00", "3:12", "tomorrow 03:12", "99:99", "03:12 ago"],
)
def test_anything_else_is_no_moment(text: str) -> None:
    assert duration_ms(text) is None
    with pytest.raises(ValueError, match="is not a time; use 90s"):
        parse_moment(text, NOW_MS)


@pytest.mark.parametrize("text", ["1969-12-31T00:00:00Z", "99999d", "999999999d"])
def test_what_lies_before_the_epoch_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not between the years 1970 and 9999"):
        parse_moment(text, NOW_MS)


NOW = "2025-06-15T17:06:40+02:00"
MOMENTS: dict[tuple[str, bool], dict[str, str]] = {
    # (now, is_ahead). A moment without a zone is local; a clock time is the newest that is past.
    (NOW, False): {
        "now": NOW,
        "2025-06-15T15:06:40": "2025-06-15T15:06:40+02:00",
        "2025-06-15 15:06": "2025-06-15T15:06:00+02:00",
        "2025-01-15 15:06": "2025-01-15T15:06:00+01:00",
        "2025-06-15": "2025-06-15T00:00:00+02:00",
        "2025-06-15T15:06:40Z": "2025-06-15T15:06:40+00:00",
        "2025-06-15T15:06:40+05:00": "2025-06-15T15:06:40+05:00",
        "2025-06-15 15:06:40 UTC": "2025-06-15T15:06:40+00:00",
        "03:12": "2025-06-15T03:12:00+02:00",
        "17:06:40": "2025-06-15T17:06:40+02:00",
        "17:06:41": "2025-06-14T17:06:41+02:00",
        "03:12:05.250": "2025-06-15T03:12:05.250+02:00",
        "16:00 UTC": "2025-06-14T16:00:00+00:00",
        "15:00 UTC": "2025-06-15T15:00:00+00:00",
        "yesterday 03:12": "2025-06-14T03:12:00+02:00",
        "today 23:00": "2025-06-15T23:00:00+02:00",
        "2h ago": "2025-06-15T15:06:40+02:00",
    },
    # Ahead it is the next to come.
    (NOW, True): {
        "03:12": "2025-06-16T03:12:00+02:00",
        "17:06:40": "2025-06-16T17:06:40+02:00",
        "18:00": "2025-06-15T18:00:00+02:00",
        "2h ago": "2025-06-15T15:06:40+02:00",
    },
    # In the hour that the clocks repeat it is the newest that is past; ahead, the first of the two.
    ("2025-10-26T02:50:00+01:00", False): {"02:30": "2025-10-26T02:30:00+01:00"},
    ("2025-10-26T02:10:00+01:00", False): {"02:30": "2025-10-26T02:30:00+02:00"},
    ("2025-10-26T02:10:00+02:00", False): {"02:30": "2025-10-25T02:30:00+02:00"},
    ("2025-10-26T02:00:00+02:00", True): {"02:30": "2025-10-26T02:30:00+02:00"},
    ("2025-10-26T02:40:00+02:00", True): {"02:30": "2025-10-26T02:30:00+01:00"},
    ("2025-10-26T12:00:00+01:00", False): {
        "2025-10-26 02:30": "2025-10-26T02:30:00+01:00",
        "yesterday 12:00": "2025-10-25T12:00:00+02:00",
    },
    ("2025-10-27T12:00:00+01:00", False): {"yesterday 02:30": "2025-10-26T02:30:00+01:00"},
    ("2025-03-30T01:50:00+01:00", False): {"02:30": "2025-03-29T02:30:00+01:00"},
}


@pytest.mark.parametrize(
    ("now", "is_ahead", "text", "meant"),
    [(*key, text, meant) for key, moments in MOMENTS.items() for text, meant in moments.items()],
)
def test_a_moment_in_berlin(now: str, is_ahead: bool, text: str, meant: str, zone: Zone) -> None:
    zone("Europe/Berlin")
    assert parse_moment(text, at(now), is_ahead=is_ahead) == at(meant)


@pytest.mark.parametrize("text", ["02:30", "today 02:30", "2025-03-30 02:30", "2025-03-30T02:59:59.5"])
def test_a_local_time_that_the_clocks_went_over_is_refused(text: str, zone: Zone) -> None:
    zone("Europe/Berlin")
    with pytest.raises(ValueError, match="does not exist: daylight saving skips it in local time"):
        parse_moment(text, at("2025-03-30T12:00:00+02:00"))
    assert parse_moment("02:30 UTC", at("2025-03-30T12:00:00+02:00")) == at("2025-03-30T02:30:00Z")


def test_a_time_is_printed_in_utc_and_locally_and_can_be_typed_again(zone: Zone) -> None:
    zone("UTC")
    assert time_text(NOW_MS) == both_times(NOW_MS) == "2025-06-15 15:06:40 UTC"
    zone("Europe/Berlin")
    assert both_times(NOW_MS) == "2025-06-15 15:06:40 UTC (17:06:40 CEST)"
    zone("Asia/Tokyo")
    assert both_times(NOW_MS) == "2025-06-15 15:06:40 UTC (2025-06-16 00:06:40 JST)"
    zone("Europe/Berlin")
    assert parse_moment(time_text(NOW_MS), 0) == NOW_MS
    assert parse_moment(str(datetime.fromtimestamp(NOW_MS / 1000, UTC)), 0) == NOW_MS


@pytest.mark.parametrize(
    ("span_ms", "reported"),
    [(0, "0 s"), (1, "0.001 s"), (45_000, "45 s"), (60_000, "1 min"), (90_000, "1 min 30 s"), (93_784_000, "1 d 2 h")],
)  # fmt: skip
def test_a_span_is_reported_in_its_two_largest_units(span_ms: int, reported: str) -> None:
    assert span_text(span_ms) == reported


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 s"),
        (59_999, "59 s"),
        (MINUTE, "1 min"),
        (59 * MINUTE, "59 min"),
        (HOUR, "1 h"),
        (3 * HOUR + 20 * MINUTE, "3 h 20 min"),
        (2 * DAY + 4 * HOUR, "2 d 4 h"),
        (30 * DAY, "30 d"),
        (-5, "0 s"),
    ],
)
def test_a_span_has_two_units_at_the_most(ms: int, text: str) -> None:
    assert span(ms) == text


def test_ages_and_clocks() -> None:
    assert [ago(12_000), ago(500), ago(-500), ago(-3 * MINUTE)] == ["12 s ago", "now", "now", "in 3 min"]
    assert iso(NOON_MS) == "2026-11-21T12:00:00.000Z"
    assert clock(NOON_MS, NOON_MS) == "12:00:00"
    assert clock(NOON_MS - DAY, NOON_MS) == "20 Nov 12:00:00"
    assert clock(NOON_MS - 365 * DAY, NOON_MS) == "21 Nov 2025 12:00:00"
