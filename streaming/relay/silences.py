"""Silences and mutes, and whether one covers an alert. The canary is never silenced: its absence pages.

A mute is a silence that recurs; its times are those of a wall clock in its zone. In the two nights in which that clock
changes, a time may be missing or occur twice: the window then begins at the earlier and ends at the later instant.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from conf.mutes import DAYS
from conf.mutes import Mute as MuteSettings
from schemas.tables import SILENCES
from streaming.relay.notice import Notice, need
from streaming.text.times import to_ms
from streaming.warehouse.readable_rows import UNREADABLE, Row, say_left_out, why
from udfs.alerts.pattern import Matchers, describe_matchers, read_matchers
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.alerts.silence import Quiet, Silence, pick_silence, pick_silence_throughout

OWNER = "[[mutes]]"
"""The author of a mute: the settings."""

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
        return Silence(silence_id, self.matchers, OWNER, self.describe(), starts_at_ms, ends_at_ms)

    def describe(self) -> str:
        """22:00 to 06:00 Asia/Shanghai, mon, tue"""
        days = "every day" if len(self.weekdays) == len(DAYS) else ", ".join(DAYS[day] for day in sorted(self.weekdays))
        return f"{self.from_time:%H:%M} to {self.to_time:%H:%M} {self.zone.key}, {days}"

    def _spans(self, now_ms: int) -> Iterator[tuple[int, int]]:
        """Yield start and end of the windows that begin from two days before until eight days after, in order."""
        today = datetime.fromtimestamp(now_ms / 1000, self.zone).date()
        for day in (today + number * _DAY for number in range(-2, 9)):
            if day.weekday() in self.weekdays:
                yield _span(day, self.from_time, self.to_time, self.zone)


@lru_cache(1_000)
def _span(day: date, from_time: time, to_time: time, zone: ZoneInfo) -> tuple[int, int]:
    """Return start and end of the window that begins on a day."""
    end_day = day + _DAY if to_time < from_time else day
    return min(_instants(day, from_time, zone)), max(_instants(end_day, to_time, zone))


def _instants(day: date, clock: time, zone: ZoneInfo) -> tuple[int, int]:
    """Return the two instants, in ms, that a time means which does not exist or exists twice; else one, twice."""
    local = datetime.combine(day, clock, zone)
    return to_ms(local), to_ms(local.replace(fold=1))


def make_mutes(settings: Iterable[MuteSettings]) -> list[Mute]:
    mutes = []
    for mute in settings:
        matchers: Matchers = dict(mute.match.items())
        days, zone = frozenset(map(DAYS.index, mute.days)), ZoneInfo(mute.time_zone)
        mutes.append(Mute(mute.name or describe_matchers(matchers), matchers, days, mute.from_, mute.to, zone))
    return mutes


class Silences:
    """All silences, active or not, and the mutes of the settings."""

    def __init__(self, mutes: Iterable[Quiet] = ()) -> None:
        self._mutes: tuple[Quiet, ...] = tuple(mutes)
        self._all = self._mutes
        self._active: list[Silence] = []

    def replace(self, silences: Iterable[Silence]) -> None:
        self._all = (*self._mutes, *silences)

    def has_changed(self, now_ms: int) -> bool:
        """Return whether other silences are active than at the last call."""
        before, self._active = self._active, [one for quiet in self._all if (one := quiet.at(now_ms)) is not None]
        return self._active != before

    def pick(self, notice: Notice, now_ms: int) -> Silence | None:
        """Return the silence that covers the notice now."""
        if notice.cluster == CANARY_CLUSTER:
            return None
        return pick_silence(self._all, notice.match_labels(), now_ms)

    def pick_throughout(self, notice: Notice, from_ms: int, until_ms: int) -> Silence | None:
        """Return one of the silences that together cover [from, until)."""
        if notice.cluster == CANARY_CLUSTER:
            return None
        return pick_silence_throughout(self._all, notice.match_labels(), from_ms, until_ms)


def read_silences(rows: Iterable[Row]) -> tuple[list[Silence], list[tuple[Row, str]]]:
    """Return the newest row of each silence_id; the unreadable ones as they are, with the reason.

    `rows` are oldest first.
    """
    silences: list[Silence] = []
    unreadable: list[tuple[Row, str]] = []
    for row in {row["silence_id"]: row for row in rows}.values():
        try:
            need(row, ("silence_id", "matchers", "created_by", "comment"))
            matchers, span = read_matchers(row["matchers"]), (to_ms(row["starts_at"]), to_ms(row["ends_at"]))
            silences.append(Silence(row["silence_id"], matchers, row["created_by"], row["comment"], *span))
        except UNREADABLE as error:
            say_left_out(SILENCES.name, row, error)
            unreadable.append((row, why(error)))
    return silences, unreadable
