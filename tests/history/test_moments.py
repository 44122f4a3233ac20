"""Moments and spans as people write them."""

import pytest

from streaming.history.moments import parse_moment, parse_span, tell, tell_span

NOW_MS = 1_750_000_000_000


@pytest.mark.parametrize(
    ("text", "span_ms"), [("250ms", 250), ("90s", 90_000), ("5m", 300_000), ("2h", 7_200_000), ("1d", 86_400_000)]
)
def test_a_span_is_a_number_and_a_unit(text: str, span_ms: int) -> None:
    assert parse_span(text) == span_ms
    assert parse_moment(text, NOW_MS) == NOW_MS - span_ms


@pytest.mark.parametrize("text", ["", "2", "h", "-2h", "2 h", "2w", "1.5h", "9999999999s", "²h"])
def test_anything_else_is_no_span(text: str) -> None:
    assert parse_span(text) is None
    with pytest.raises(ValueError, match="neither a span such as"):
        parse_moment(text, NOW_MS)


def test_a_time_without_a_zone_is_utc() -> None:
    assert parse_moment("2025-06-15T15:06:40", 0) == parse_moment("2025-06-15T17:06:40+02:00", 0) == NOW_MS
    assert parse_moment("2025-06-15T15:06:40Z", 0) == NOW_MS
    assert tell(NOW_MS) == "2025-06-15 15:06:40 UTC"


@pytest.mark.parametrize(
    ("span_ms", "told"),
    [(0, "0 s"), (1, "0.001 s"), (45_000, "45 s"), (60_000, "1 min"), (90_000, "1 min 30 s"), (93_784_000, "1 d 2 h")],
)  # fmt: skip
def test_a_span_is_told_in_its_two_largest_units(span_ms: int, told: str) -> None:
    assert tell_span(span_ms) == told
