"""Parsing of times and durations: `90s`, `2h`, `03:12`, `yesterday 03:12`, or ISO 8601.

A time without a zone is local (`TZ`). Output is UTC, with local time beside it where it differs (see times).
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from datetime import time as time_of_day

from conf.section import duration_ms
from streaming.text.times import to_ms

_CLOCK = re.compile(r"(?:(?P<day>today|yesterday) +)?(?P<clock>\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)", re.ASCII)
_DAYS_AGO = {"today": 0, "yesterday": 1}
_FORMS = "90s, 2h or 1d (ago), 03:12, yesterday 03:12, or an ISO 8601 time"


def parse_moment(text: str, now_ms: int, *, is_ahead: bool = False) -> int:
    """Return epoch ms of `now`, `2h` (before now), `03:12` (the last one), `yesterday 03:12`, or an ISO 8601 time.

    A time is local unless `Z`, an offset or ` UTC` follows; an hour that the clocks repeat means the last past one.
    With `is_ahead` a duration counts from now on, unless ` ago` follows, and `03:12` is the next one.

    Raises ValueError with the text in its message.
    """
    bare = text.strip()
    is_past = not is_ahead or bare.endswith(" ago")
    span_ms = 0 if bare == "now" else duration_ms(bare.removesuffix(" ago"))
    if span_ms is not None:
        moment_ms = now_ms - span_ms if is_past else now_ms + span_ms
    else:
        is_utc = bare.endswith(" UTC")
        moment_ms = _parse_time(bare.removesuffix(" UTC").rstrip(), UTC if is_utc else None, now_ms, is_ahead, text)
    if not 0 <= moment_ms < 253_402_300_800_000:
        raise ValueError(f"{text!r} is not between the years 1970 and 9999")
    return moment_ms


def _parse_time(bare: str, zone: tzinfo | None, now_ms: int, is_ahead: bool, text: str) -> int:
    try:
        found = _CLOCK.fullmatch(bare)
        if found is None:
            times = [datetime.fromisoformat(bare)]
            if times[0].tzinfo:
                return to_ms(times[0])
        else:
            today = datetime.fromtimestamp(now_ms / 1000, zone).date()
            clock = time_of_day.fromisoformat(found["clock"])
            days = [_DAYS_AGO[found["day"]]] if found["day"] else [0, -1 if is_ahead else 1]
            times = [datetime.combine(today - timedelta(days=ago), clock) for ago in days]
        moment_ms, time = _at(times, zone, now_ms, is_ahead)
        read_again = datetime.fromtimestamp(moment_ms // 1000, zone).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text!r} is not a time; use {_FORMS}") from None
    if read_again != time.replace(microsecond=0):
        skipped = "daylight saving skips it in local time; name the zone, as in 01:30 UTC"
        raise ValueError(f"{text!r} does not exist: {skipped}")
    return moment_ms


def _at(times: Sequence[datetime], zone: tzinfo | None, now_ms: int, is_ahead: bool) -> tuple[int, datetime]:
    """Return the last past reading of local times, or with `is_ahead` the next one; the first where none qualifies."""
    meant = []
    for time in times:
        first_ms, second_ms = (to_ms(time.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
        meant += [(first_ms, time), (max(first_ms, second_ms), time)]  # the second is before it where there is neither
    fitting = [one for one in meant if (one[0] > now_ms) == is_ahead]
    pick = min if is_ahead else max
    return pick(fitting) if fitting else meant[0]
