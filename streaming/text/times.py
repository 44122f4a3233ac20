"""Conversion of times between epoch ms, datetimes, ISO 8601 and text; durations as text.

Printed times are UTC; `both_times` adds the local time where it differs.
"""

from datetime import UTC, datetime
from time import time_ns

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


def wall_ms() -> int:
    """Return epoch ms of the system clock, which can be set back."""
    return time_ns() // 1_000_000


def to_ms(time: datetime | int) -> int:
    """Return epoch ms of a time; an int is epoch ms already, a time without a zone is local."""
    return time if isinstance(time, int) else round(time.timestamp() * 1000)


def to_time(time_ms: int) -> datetime:
    """Return the time as a datetime in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def iso(time: datetime | int, timespec: str = "milliseconds") -> str:
    """Return 2026-11-21T03:12:05.123Z; with "seconds" 2026-11-21T03:12:05Z."""
    time = to_time(time) if isinstance(time, int) else time.astimezone(UTC)
    return time.isoformat(timespec=timespec).replace("+00:00", "Z")


def time_text(time_ms: int) -> str:
    """Return 2026-11-21 03:12:05 UTC."""
    return to_time(time_ms).strftime("%Y-%m-%d %H:%M:%S UTC")


def both_times(time_ms: int) -> str:
    """Return UTC, and the local time where it differs: 2026-11-21 03:12:05 UTC (04:12:05 CET)."""
    local = to_time(time_ms).astimezone()
    if not local.utcoffset():
        return time_text(time_ms)
    is_same_day = local.date() == to_time(time_ms).date()
    return f"{time_text(time_ms)} ({local.strftime('%H:%M:%S %Z' if is_same_day else '%Y-%m-%d %H:%M:%S %Z')})"


def clock(ms: int, now_ms: int) -> str:
    """Return 03:12:05, with "21 Nov " before it on another day, and the year in another year."""
    then, now = to_time(ms), to_time(now_ms)
    if then.date() == now.date():
        return f"{then:%H:%M:%S}"
    return f"{then:%-d %b %H:%M:%S}" if then.year == now.year else f"{then:%-d %b %Y %H:%M:%S}"


def span_text(span_ms: int) -> str:
    """Return 1 h 20 min, the two largest units; below a minute, seconds with their fraction. See `span`."""
    if span_ms < MINUTE:
        return f"{span_ms / SECOND:g} s"
    minutes, ms = divmod(span_ms, MINUTE)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (ms // SECOND, "s")]
    return " ".join([f"{number} {unit}" for number, unit in parts if number][:2])


def span(ms: int) -> str:
    """Return 4 s, 12 min, 3 h 20 min, 2 d 4 h: at most two units. The board's script does the same."""
    unit = SECOND if ms < MINUTE else MINUTE if ms < DAY else HOUR
    return span_text(max(0, ms) // unit * unit)


def ago(ms: int) -> str:
    """Return 12 s ago; "now" within a second; "in 3 min" for a future time."""
    if ms <= -SECOND:
        return f"in {span(-ms)}"
    return f"{span(ms)} ago" if ms >= SECOND else "now"
