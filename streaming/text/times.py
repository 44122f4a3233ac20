"""Conversion of times between epoch ms, datetimes, ISO 8601 and text; parsing of times and durations.

Printed times are UTC; `both_times` adds the local time where it differs. A parsed time without a zone is local (`TZ`).
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from datetime import time as time_of_day
from time import time_ns

from conf.section import duration_ms
from streaming.text.language import localize
from udfs.alerts.phrase import phrase

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


_CLOCK = re.compile(r"(?:(?P<day>today|yesterday) +)?(?P<clock>\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)", re.ASCII)
_DAYS_AGO = {"today": 0, "yesterday": 1}


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
        raise ValueError(localize(phrase("{text!r} is not between the years 1970 and 9999", text=text)))
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
        known = phrase("{text!r} is not a time; use 90s, 2h or 1d (ago), 03:12, yesterday 03:12, or an ISO 8601 time")
        raise ValueError(localize(known.given(text=text))) from None
    if read_again != time.replace(microsecond=0):
        skipped = phrase(
            "{text!r} does not exist: daylight saving skips it in local time; name the zone, as in 01:30 UTC", text=text
        )
        raise ValueError(localize(skipped))
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
