"""The moment that a URL asks for: epoch ms, a span before now, or ISO 8601, UTC where it names no zone."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from streaming.board.url.parameters import AskedError, parse_url_span, read_span_ms
from streaming.text.times import to_ms

EARLIEST_MS = 1_000_000_000_000
"""September 2001: RocketMQ is younger."""

_SPOILT_ZONE = re.compile(r"(.*\d:\d\d.*) (\d\d(?::?\d\d)?)")
"""A time, and after it a zone whose "+" was typed into a URL, where it means a space."""


def read_moment_ms(asked: Mapping[str, str], name: str, now_ms: int) -> int | None:
    """Epoch ms; None where the URL does not ask, or asks for now or later. Raises AskedError."""
    value = asked.get(name)
    if not value:
        return None
    moment_ms = _parse(asked, name, value, now_ms)
    if moment_ms < EARLIEST_MS:
        raise AskedError(f"{name} = {value!r} is before anything was recorded; give a later moment.")
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
            f"{name} = {value!r} is no moment; give epoch ms, a span before now such as 2h, or 2026-11-21T03:12:05Z."
        ) from None
