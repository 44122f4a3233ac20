"""Moments and spans as people write them: `90s`, `2h`, `03:12`, `yesterday 03:12`, or ISO 8601.

A moment that names no zone is in the machine's local zone (`TZ`), everywhere a command takes one; what is printed (see
times) says UTC, and the local time beside it where the two differ.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from datetime import time as time_of_day

from streaming.text.times import UNITS, to_ms

_SPAN = re.compile(r"(\d{1,9})(ms|s|m|h|d)", re.ASCII)
_CLOCK = re.compile(r"(?:(?P<day>today|yesterday) +)?(?P<clock>\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)", re.ASCII)
_DAYS_AGO = {"today": 0, "yesterday": 1}
_FORMS = "a span such as 90s, 2h or 1d, a time such as 03:12 or yesterday 03:12, or an ISO 8601 time"


def parse_span(text: str) -> int | None:
    """`2h` in ms; None when it is no span."""
    found = _SPAN.fullmatch(text.strip())
    return int(found[1]) * UNITS[found[2]] if found else None


def parse_moment(text: str, now_ms: int, *, is_ahead: bool = False) -> int:
    """Epoch ms of `now`, `2h` (before now), `03:12` (the newest that is past), `yesterday 03:12`, or an ISO 8601 time.

    Local where it names no zone, and of an hour that the clocks repeat the newest that is past; `Z`, an offset or
    ` UTC` behind it name one. With `is_ahead` a span is from now on, unless ` ago` is behind it, and `03:12` the next
    that is to come.

    Raises ValueError that shows the text.
    """
    bare = text.strip()
    is_past = not is_ahead or bare.endswith(" ago")
    span_ms = 0 if bare == "now" else parse_span(bare.removesuffix(" ago"))
    if span_ms is not None:
        moment_ms = now_ms - span_ms if is_past else now_ms + span_ms
    else:
        is_utc = bare.endswith(" UTC")
        moment_ms = _parse_time(bare.removesuffix(" UTC").rstrip(), UTC if is_utc else None, now_ms, is_ahead, text)
    if not 0 <= moment_ms < 253_402_300_800_000:
        raise ValueError(f"{text!r} is not between 1970 and 9999")
    return moment_ms


def _parse_time(bare: str, zone: tzinfo | None, now_ms: int, is_ahead: bool, text: str) -> int:
    try:
        found = _CLOCK.fullmatch(bare)
        if found is None:
            time = datetime.fromisoformat(bare)
            return to_ms(time) if time.tzinfo else _at([time], zone, now_ms, is_ahead)
        today = datetime.fromtimestamp(now_ms / 1000, zone).date()
        clock = time_of_day.fromisoformat(found["clock"])
        days = [_DAYS_AGO[found["day"]]] if found["day"] else [0, -1 if is_ahead else 1]
        times = [datetime.combine(today - timedelta(days=ago), clock) for ago in days]
        return _at(times, zone, now_ms, is_ahead)
    except _NoSuchTimeError as error:
        raise ValueError(f"{text!r} {error}") from None
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text!r} is neither {_FORMS}") from None


class _NoSuchTimeError(Exception):
    """The clocks went forward over it."""


def _at(times: Sequence[datetime], zone: tzinfo | None, now_ms: int, is_ahead: bool) -> int:
    """Of what those without a zone may mean the newest that is past, or with `is_ahead` the next to come.

    The first one, where all are on the other side of now.
    """
    meant = []
    for time in times:
        first_ms, second_ms = (to_ms(time.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
        meant += [(first_ms, time), (max(first_ms, second_ms), time)]  # the second is before it where there is neither
    fitting = [one for one in meant if (one[0] > now_ms) == is_ahead]
    pick = min if is_ahead else max
    moment_ms, time = pick(fitting) if fitting else meant[0]
    if datetime.fromtimestamp(moment_ms // 1000, zone).replace(tzinfo=None) != time.replace(microsecond=0):
        raise _NoSuchTimeError("does not exist: the local clocks went forward over it; name the zone, as in 01:30 UTC")
    return moment_ms
