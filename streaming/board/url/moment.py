"""The time in a URL: epoch ms, a duration before now, or ISO 8601 (UTC without a zone)."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from streaming.board.url.parameters import AskedError, parse_url_span, read_span_ms
from streaming.text.times import to_ms

EARLIEST_MS = 1_000_000_000_000
"""September 2001, before RocketMQ existed."""

_SPOILT_ZONE = re.compile(r"(.*\d:\d\d.*) (\d\d(?::?\d\d)?)")
"""A time with a zone whose "+" the URL decoded to a space."""


def read_moment_ms(asked: Mapping[str, str], name: str, now_ms: int) -> int | None:
    """Return epoch ms, or None where the URL names no time or one that is not in the past. Raises AskedError."""
    value = asked.get(name)
    if not value:
        return None
    moment_ms = _parse(asked, name, value, now_ms)
    if moment_ms < EARLIEST_MS:
        raise AskedError(f"{name} = {value!r} is too early; 2001-09-09T01:46:40Z is the earliest.")
    return moment_ms if moment_ms < now_ms else None


def _parse(asked: Mapping[str, str], name: str, value: str, now_ms: int) -> int:
    if re.fullmatch(r"\d{1,15}", value):
        return int(value)
    if parse_url_span(value) is not None:
        return now_ms - read_span_ms(asked, name, value)
    try:
        time = datetime.fromisoformat(_SPOILT_ZONE.sub(r"\1+\2", value))
        return to_ms(time if time.tzinfo else time.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise AskedError(
            f"{name} = {value!r} is not a time; give epoch ms, a duration before now (2h) or 2026-11-21T03:12:05Z."
        ) from None
