"""Moments and spans as people write them: `90s`, `2h`, `1d`, or ISO 8601."""

import re
from datetime import UTC, datetime

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"(\d{1,9})(ms|s|m|h|d)")


def parse_span(text: str) -> int | None:
    """`2h` in ms; None when it is no span."""
    found = _SPAN.fullmatch(text.strip())
    return int(found[1]) * _UNITS[found[2]] if found else None


def parse_moment(text: str, now_ms: int) -> int:
    """Epoch ms of `2h` (before now) or of an ISO 8601 time, UTC where it names no zone.

    Raises ValueError that shows the text.
    """
    span_ms = parse_span(text)
    if span_ms is not None:
        return now_ms - span_ms
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is neither a span such as 90s, 2h or 1d nor an ISO 8601 time") from None
    return to_ms(time if time.tzinfo else time.replace(tzinfo=UTC))


def to_ms(time: datetime) -> int:
    """Epoch ms."""
    return round(time.timestamp() * 1000)


def to_time(time_ms: int) -> datetime:
    """UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def tell(time_ms: int) -> str:
    """2026-11-21 03:12:05 UTC"""
    return to_time(time_ms).strftime("%Y-%m-%d %H:%M:%S UTC")


def tell_span(span_ms: int) -> str:
    """1 h 20 min; the two largest units, seconds with a fraction where there is one."""
    if span_ms < 60_000:
        return f"{span_ms / 1000:g} s"
    minutes, ms = divmod(span_ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (ms // 1000, "s")]
    return " ".join([f"{number} {unit}" for number, unit in parts if number][:2])
