"""The `[[mutes]]` of the settings: recurring windows in which matching alerts are not sent."""

from datetime import time
from difflib import get_close_matches
from typing import Annotated, Any, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import AfterValidator, BeforeValidator, Field, field_validator
from pydantic_core.core_schema import ValidationInfo

from conf.oncall import Label
from conf.section import Patterns, Section, invalid

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = get_args(Day)
"""In the order of `date.weekday()`."""


def _is_a_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: a folder of zones, such as "Asia"
        near = get_close_matches(name, sorted(available_timezones()), 1)
        hint = f"; did you mean {near[0]}?" if near else ", such as Europe/Berlin"
        raise invalid(f"give the name of an IANA time zone{hint}") from None
    return name


def _read_time(value: Any) -> time:
    """A time of day to the minute. TOML's own local time, 22:00:00, is one, too."""
    try:
        read = value if isinstance(value, time) else time.fromisoformat(value)
        if read.second or read.microsecond or read.tzinfo or value not in (read, f"{read:%H:%M}"):
            raise ValueError
    except (TypeError, ValueError):
        raise invalid('give a time of day from "00:00" to "23:59"') from None
    return read


TimeOfDay = Annotated[time, BeforeValidator(_read_time)]


class Mute(Section):
    """One window, on each of its days from `from` until just before `to`, by the wall clock of the time zone.

    A window with `to` below `from` ends on the day after. `days` are those on which windows begin.
    """

    name: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    match: dict[Label, Patterns]
    days: tuple[Day, ...] = Field(default=DAYS, min_length=1)
    from_: TimeOfDay = Field(alias="from")
    to: TimeOfDay
    time_zone: Annotated[str, Field(max_length=100), AfterValidator(_is_a_zone)] = "UTC"

    @field_validator("match")
    @classmethod
    def _matches_on_a_label(cls, match: dict[str, Any]) -> dict[str, Any]:
        if not match:
            raise invalid('name a label; { cluster = "*" } covers everything')
        return match

    @field_validator("to")
    @classmethod
    def _ends(cls, to: time, known: ValidationInfo) -> time:
        if to == known.data.get("from_"):
            raise invalid(
                f"must differ from from = {to:%H:%M}; to mute a kind permanently, set is_enabled = false in "
                "rules.kinds or an override"
            )
        return to
