"""Mutes: silences that recur.

The times of a mute are those of a wall clock in its zone. In the two nights in which that clock
changes, a time may be missing or occur twice: the window then begins at the earlier and ends at the later instant.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from conf.oncall import DAYS
from conf.oncall import Mute as MuteSettings
from streaming.text.language import localize
from streaming.text.times import to_ms
from udfs.alerts.pattern import Matchers, describe_matchers
from udfs.alerts.phrase import phrase
from udfs.alerts.silence import MUTED_BY, Silence

_LAST_MS = 253_000_000_000_000
"""In the year 9987: the days around it are dates, too."""

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Mute:
    """Windows from `from_time` until just before `to_time`, which begin on `weekdays`, as `date.weekday()` counts."""

    name: str
    matchers: Matchers
    weekdays: frozenset[int]
    from_time: time
    to_time: time
    zone: ZoneInfo

    def at(self, now_ms: int) -> Silence | None:
        """Return the window that is open now."""
        window = self.next_window(now_ms)
        return window if window.is_active(now_ms) else None

    def next_window(self, now_ms: int) -> Silence:
        """Return the window that is open now, or the next one."""
        now_ms = min(max(now_ms, 0), _LAST_MS)
        starts_at_ms, ends_at_ms = next(span for span in self._spans(now_ms) if span[1] > now_ms)
        end = datetime.fromtimestamp(ends_at_ms / 1000, self.zone)
        silence_id = f"mute {self.name!r} until {end.isoformat(timespec='minutes')}"
        return Silence(silence_id, self.matchers, MUTED_BY, self.describe(), starts_at_ms, ends_at_ms)

    def describe(self) -> str:
        """22:00 to 06:00 Asia/Shanghai, mon, tue"""
        some = ", ".join(DAYS[day] for day in sorted(self.weekdays))
        days = phrase("every day") if len(self.weekdays) == len(DAYS) else some
        text = phrase("{start} to {end} {zone}, {days}", zone=self.zone.key, days=days)
        return localize(text.given(start=f"{self.from_time:%H:%M}", end=f"{self.to_time:%H:%M}"))

    def _spans(self, now_ms: int) -> Iterator[tuple[int, int]]:
        """Yield start and end of the windows that begin from two days before until eight days after, in order."""
        today = datetime.fromtimestamp(now_ms / 1000, self.zone).date()
        for day in (today + number * _DAY for number in range(-2, 9)):
            if day.weekday() in self.weekdays:
                yield _span(day, self.from_time, self.to_time, self.zone)


@lru_cache(1_000)
def _span(day: date, from_time: time, to_time: time, zone: ZoneInfo) -> tuple[int, int]:
    """Return start and end of the window that begins on a day, ms.

    A time that does not exist or exists twice means two instants, those of both folds.
    """
    start = datetime.combine(day, from_time, zone)
    end = datetime.combine(day + _DAY if to_time < from_time else day, to_time, zone)
    return min(to_ms(start), to_ms(start.replace(fold=1))), max(to_ms(end), to_ms(end.replace(fold=1)))


def make_mutes(settings: Iterable[MuteSettings]) -> list[Mute]:
    mutes = []
    for mute in settings:
        matchers: Matchers = dict(mute.match.items())
        days, zone = frozenset(map(DAYS.index, mute.days)), ZoneInfo(mute.time_zone)
        mutes.append(Mute(mute.name or describe_matchers(matchers), matchers, days, mute.from_, mute.to, zone))
    return mutes
