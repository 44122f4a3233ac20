"""Moments and spans as people read them: epoch ms in, words out, always UTC."""

from datetime import UTC, datetime

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


def ms_of(time: datetime | None) -> int | None:
    """Epoch ms of a column's value."""
    return None if time is None else round(time.timestamp() * 1000)


def iso(ms: int) -> str:
    """2026-11-21T03:12:05.123Z"""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock(ms: int, now_ms: int) -> str:
    """03:12:05, with "21 Nov " before it on another day, and the year in another year."""
    then, now = datetime.fromtimestamp(ms / 1000, UTC), datetime.fromtimestamp(now_ms / 1000, UTC)
    if then.date() == now.date():
        return f"{then:%H:%M:%S}"
    return f"{then:%-d %b %H:%M:%S}" if then.year == now.year else f"{then:%-d %b %Y %H:%M:%S}"


def span(ms: int) -> str:
    """4 s, 12 min, 3 h 20 min, 2 d 4 h: two units at the most. The browser's script says the same."""
    seconds = max(0, ms) // SECOND
    if seconds < 60:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def ago(ms: int) -> str:
    """12 s ago; "now" within a second; "in 3 min" for what is to come."""
    if ms <= -SECOND:
        return f"in {span(-ms)}"
    return f"{span(ms)} ago" if ms >= SECOND else "now"
