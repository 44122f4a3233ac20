"""Parsing of URLs: query parameters, a time, a page of a list; and the links that carry them.

Parameters are bounded and validated, with a sentence for each invalid one.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl, urlencode

from conf.section import duration_ms
from streaming.board.words import counted
from streaming.text.language import localize
from streaming.text.times import DAY, to_ms
from udfs.alerts.phrase import Words, phrase

MOST_PARAMETERS = 20
LONGEST_VALUE = 512

LONGEST_SPAN_MS = 3_650 * DAY
"""Ten years. RocketMQ keeps nothing that long, and the resulting time is valid on every clock."""


Item = TypeVar("Item")


class AskedError(ValueError):
    """A URL parameter that cannot be used. The message names the parameter and its value."""

    def __init__(self, sentence: Words) -> None:
        super().__init__(localize(sentence))


def read_asked(search: str, known: Collection[str]) -> Mapping[str, str]:
    """Return the parameters of a URL's `?...` without empty ones. Raises AskedError."""
    try:
        pairs = parse_qsl(search.removeprefix("?"), max_num_fields=MOST_PARAMETERS, errors="strict")
    except (ValueError, UnicodeDecodeError):
        text = phrase("The URL has more than {number} parameters or is not UTF-8.", number=MOST_PARAMETERS)
        raise AskedError(text) from None
    asked = {name: value.strip() for name, value in pairs}
    for name, value in asked.items():
        if name not in known:
            choices = phrase("allowed: {names}", names=", ".join(sorted(known))) if known else phrase("it has none")
            text = phrase("{name!r} is not a parameter of this page; {choices}.", name=name[:60], choices=choices)
            raise AskedError(text)
        if len(value) > LONGEST_VALUE or not value.isprintable():
            text = phrase("{name} is invalid: at most {number} characters, all printable, are allowed.", name=name)
            raise AskedError(text.given(number=LONGEST_VALUE))
    return asked


def href(path: str, asked: Mapping[str, str | int | None] | None = None, /, **more: str | int | None) -> str:
    """Return a link to a page with these parameters, without None and "". Keywords override the mapping."""
    given = {**(asked or {}), **more}
    query = urlencode({name: value for name, value in given.items() if value not in (None, "")})
    return f"{path}?{query}" if query else path


def read_span_ms(asked: Mapping[str, str], name: str, default: str) -> int:
    """Return a duration such as 30m, 24h or 7d in ms. Raises AskedError."""
    value = asked.get(name, default)
    span_ms = duration_ms(value)
    if not span_ms:
        text = phrase("{name} = {value!r} is not a duration; give a number with s, m, h or d, such as {default}.")
        raise AskedError(text.given(name=name, value=value, default=default))
    if span_ms > LONGEST_SPAN_MS:
        text = phrase("{name} = {value!r} is longer than ten years; give a shorter duration, such as {default}.")
        raise AskedError(text.given(name=name, value=value, default=default))
    return span_ms


def read_choice(asked: Mapping[str, str], name: str, choices: Collection[str], default: str = "") -> str:
    """Return one of the choices, or the default for a missing parameter. Raises AskedError."""
    value = asked.get(name, default)
    if value != default and value not in choices:
        text = phrase("{name} = {value!r}: choose one of {choices}.", name=name, value=value)
        raise AskedError(text.given(choices=", ".join(choices)))
    return value


SortKeys = Mapping[str, Callable[[Any], Any]]
"""Names of columns to what their rows are sorted by."""


def read_sort(asked: Mapping[str, str], columns: Collection[str]) -> str:
    """Return the column to sort by, with "-" before it for descending order; "" is the page's own order.

    Raises AskedError.
    """
    return read_choice(asked, "sort", [*columns, *(f"-{column}" for column in columns)])


def sort_rows(rows: Sequence[Item], asked: Mapping[str, str], keys: SortKeys) -> Sequence[Item]:
    """Return the rows by the column that `sort` names, those without a value last. Raises AskedError."""
    sort = read_sort(asked, keys)
    if not sort:
        return rows
    key = keys[sort.removeprefix("-")]
    known = sorted((row for row in rows if key(row) is not None), key=key, reverse=sort.startswith("-"))
    return [*known, *(row for row in rows if key(row) is None)]


EARLIEST_MS = 1_000_000_000_000
"""September 2001, before RocketMQ existed."""

_SPOILT_ZONE = re.compile(r"(.*\d:\d\d.*) (\d\d(?::?\d\d)?)")
"""A time with a zone whose "+" the URL decoded to a space."""


def read_moment_ms(asked: Mapping[str, str], name: str, now_ms: int) -> int | None:
    """Return epoch ms, or None where the URL names no time or one that is not in the past. Raises AskedError."""
    value = asked.get(name)
    if not value:
        return None
    if re.fullmatch(r"\d{1,15}", value):
        moment_ms = int(value)
    elif (ago_ms := duration_ms(value)) is not None:
        moment_ms = now_ms - ago_ms
    else:
        try:
            time = datetime.fromisoformat(_SPOILT_ZONE.sub(r"\1+\2", value))
            moment_ms = to_ms(time if time.tzinfo else time.replace(tzinfo=UTC))
        except (ValueError, OverflowError):
            text = phrase(
                "{name} = {value!r} is not a time; give epoch ms, a duration before now (2h) or 2026-11-21T03:12:05Z."
            )
            raise AskedError(text.given(name=name, value=value)) from None
    if moment_ms < EARLIEST_MS:
        text = phrase("{name} = {value!r} is too early; 2001-09-09T01:46:40Z is the earliest.", name=name, value=value)
        raise AskedError(text)
    return moment_ms if moment_ms < now_ms else None


@dataclass(frozen=True)
class Slice(Generic[Item]):
    """One page of a list of `total` items. `page` counts from 1; a number beyond the end gives the last page."""

    items: Sequence[Item]
    page: int
    pages: int
    total: int

    def describe(self, noun: str) -> str:
        """Return `100 of 10,000 queues`, or `16 queues` if all are shown."""
        every = counted(self.total, noun)
        if len(self.items) == self.total:
            return every
        return localize(phrase("{number:,} of {every}", number=len(self.items), every=every))


def slice_of(items: Sequence[Item], asked: Mapping[str, str], size: int) -> Slice[Item]:
    """Return the page that `page` asks for. Raises AskedError."""
    page, pages = read_page(asked, len(items), size)
    return Slice(items[(page - 1) * size : page * size], page, pages, len(items))


def read_page(asked: Mapping[str, str], total: int, size: int) -> tuple[int, int]:
    """Return the requested page's number and the number of pages. Raises AskedError."""
    value, pages = asked.get("page", "1"), max(1, -(-total // size))
    if not re.fullmatch(r"0*[1-9]\d{0,5}", value, re.ASCII):
        raise AskedError(phrase("page = {value!r}: give an integer from 1 to 999999.", value=value))
    return min(int(value), pages), pages
