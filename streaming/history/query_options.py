"""What a command about the history is asked: from when to when, of what, how many, in which form.

A command takes the options it can answer, by the names here, and hands them to `parse_options`; those of a table are
written as data (see table_question).
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast

import typer

from conf.location import Location
from streaming.terminal.command import fail, load
from streaming.text.time_text import parse_moment
from streaming.text.times import both_times, wall_ms

Format = Literal["table", "json", "csv", "parquet"]
FORMATS: tuple[Format, ...] = ("table", "json", "csv", "parquet")

TABLE_ROWS = 200
"""Rows of a table for people when no --limit is given: the newest."""

MOST_ROWS = 1_000_000
"""That --limit may ask for; it holds them in memory, and without a limit none are held."""

MOST_CHARACTERS = 255
BOUNDED = ("cluster", "group", "topic", "broker")
"""Names that are refused at once where they are longer, or empty."""

_MOMENT = "2h ago, 03:12, yesterday 03:12, or ISO 8601; local where no zone is named."

Since = Annotated[str | None, typer.Option(help=f"From when on: {_MOMENT}")]
Until = Annotated[str | None, typer.Option(help="Until when, likewise.")]
At = Annotated[str | None, typer.Option(help="What was so at that moment, likewise: the newest of each until then.")]
Current = Annotated[bool, typer.Option("--current", help="What is so now: only the newest row of each.")]
Cluster = Annotated[str | None, typer.Option(help="Only this cluster; globs such as prod-* too.")]
Group = Annotated[str | None, typer.Option(help="Only this consumer group, or those that match the glob.")]
Topic = Annotated[str | None, typer.Option(help="Only this topic, or those that match the glob.")]
Broker = Annotated[str | None, typer.Option(help="Only this broker, or those that match the glob.")]
FormatName = Annotated[str, typer.Option("--format", help="table, json, csv or parquet (to a file or a pipe).")]


def _limit(which: str) -> Any:
    which_rows = f"The {which} so many rows; 0 is all. Without it {TABLE_ROWS} of a table, else all."
    return typer.Option(min=0, max=MOST_ROWS, help=which_rows)


Limit = Annotated[int | None, _limit("newest")]
FirstLimit = Annotated[int | None, _limit("first")]


@dataclass(frozen=True)
class QueryOptions:
    """Times are epoch ms, both ends of a span included. `names` are option to name or glob, of the options that were
    given. `states` are upper case; none asks nothing.

    Rows older than `stale_ms` do not tell what is so now (board.stale_seconds). Names of runbooks
    follow `runbooks_url`.
    """

    warehouse: Location
    since_ms: int | None = None
    until_ms: int | None = None
    at_ms: int | None = None
    is_current: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    states: tuple[str, ...] = ()
    limit: int | None = None
    format: Format = "table"
    stale_ms: int = 660_000
    runbooks_url: str = ""


def parse_options(
    *,
    since: str | None = None,
    until: str | None = None,
    at: str | None = None,
    current: bool = False,
    state: str | None = None,
    states: Sequence[str] = (),
    format_: str = "table",
    formats: Sequence[Format] = FORMATS,
    limit: int | None = None,
    warehouse: Location | None = None,
    **names: str | None,
) -> QueryOptions:
    """The options as they were given. `states` are the values that `state`, one or several with commas, may have;
    `names` are those that name something, or are globs.

    Leaves with 2 and a sentence that names the option, where one cannot be used.
    """
    form = check_format(format_, formats)
    wanted = _states(state, states)
    given = {name: glob for name, glob in names.items() if glob is not None}
    for name in BOUNDED:
        if name in given and not 0 < len(given[name]) <= MOST_CHARACTERS:
            fail(f"--{name} {given[name][:50]!r}: give 1 to {MOST_CHARACTERS} characters", code=2)
    if at is not None and (since is not None or until is not None or current):
        fail("--at is one moment: leave out --since, --until and --current", code=2)
    now_ms = wall_ms()
    since_ms, until_ms = moment("--since", since, now_ms), moment("--until", until, now_ms)
    if since_ms is not None and since_ms > (now_ms if until_ms is None else until_ms):
        fail(f"--since {since} is not before --until {until or 'now'}", code=2)
    at_ms = moment("--at", at, now_ms)
    if at_ms is not None and at_ms > now_ms:
        fail(f"--at {at} is yet to come ({both_times(at_ms)}): give a moment that is past", code=2)
    settings = load(logs_to_stderr=False, paths={"warehouse": warehouse})
    return QueryOptions(
        warehouse=settings.paths.warehouse,
        since_ms=since_ms,
        until_ms=until_ms,
        at_ms=at_ms,
        is_current=current,
        names=given,
        states=wanted,
        limit=(limit or None) if limit is not None else (TABLE_ROWS if form == "table" else None),
        format=form,
        stale_ms=round(settings.board.stale_seconds * 1000),
        runbooks_url=settings.runbooks_url,
    )


def moment(flag: str, text: str | None, now_ms: int) -> int | None:
    """Epoch ms; leaves with 2 when the text is no moment."""
    try:
        return None if text is None else parse_moment(text, now_ms)
    except ValueError as error:
        fail(f"{flag} {error}", code=2)


def check_format(format_: str, formats: Sequence[Format] = FORMATS) -> Format:
    """Leaves with 2 when it is none of them, or is bytes and would go to a terminal."""
    if format_ not in formats:
        fail(f"--format {format_!r}: choose {', '.join(formats[:-1])} or {formats[-1]}", code=2)
    if format_ == "parquet" and is_terminal():
        fail("--format parquet writes bytes: send them to a file (> rows.parquet) or a pipe", code=2)
    return cast(Format, format_)


def is_terminal() -> bool:
    """Whether a person reads what is printed."""
    return sys.stdout.isatty()


def _states(state: str | None, states: Sequence[str]) -> tuple[str, ...]:
    wanted = tuple(one.strip().upper() for one in (state or "").split(",") if one.strip())
    if state is not None and (not wanted or not set(wanted) <= set(states)):
        fail(f"--state {state[:50]!r}: choose one of {', '.join(states)}", code=2)
    return wanted
