"""Moments and spans as people read them."""

import pytest

from streaming.text.times import DAY, HOUR, MINUTE, ago, clock, iso, span

NOON = 1_795_262_400_000


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


def test_ages_count_both_ways() -> None:
    assert [ago(12_000), ago(500), ago(-500), ago(-3 * MINUTE)] == ["12 s ago", "now", "now", "in 3 min"]


def test_a_clock_names_the_day_only_where_it_is_another() -> None:
    assert iso(NOON) == "2026-11-21T12:00:00.000Z"
    assert clock(NOON, NOON) == "12:00:00"
    assert clock(NOON - DAY, NOON) == "20 Nov 12:00:00"
    assert clock(NOON - 365 * DAY, NOON) == "21 Nov 2025 12:00:00"
