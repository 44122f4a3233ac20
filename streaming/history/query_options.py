"""The options of the commands that query the tables: time, names, states, limit and format.

A command declares the options that it supports and passes them to `parse_options`; those of a table are declared as
data (see table_question).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

import typer

from conf.location import Location
from streaming.relay.mutes import Mute, make_mutes
from streaming.terminal.command import fail, load
from streaming.terminal.completion import BROKERS, CLUSTERS, GROUPS, TOPICS
from streaming.terminal.format_option import FORMATS, Format, format_option
from streaming.text.times import both_times, parse_moment, wall_ms
from udfs.alerts.static_labels import LabelRules

TABLE_ROWS = 200
"""Rows of a table for people without --limit: the newest."""

MOST_ROWS = 1_000_000
"""Maximum of --limit, whose rows are held in memory; without a limit rows are streamed."""

MOST_CHARACTERS = 255
"""Limit of a name or glob."""

TIME, GLOB = "TIME", "GLOB"
"""What help shows in place of a type."""

_MOMENT = "2h (ago), 03:12, 'yesterday 03:12' or ISO 8601; local time unless it names a zone."


def _name(which: str, completion: Any) -> Any:
    return typer.Option(help=f"Only {which}.", metavar=GLOB, autocompletion=completion)


Since = Annotated[str | None, typer.Option(help=f"Rows from this time: {_MOMENT}", metavar=TIME)]
Until = Annotated[str | None, typer.Option(help="Rows until this time.", metavar=TIME)]
At = Annotated[str | None, typer.Option(help="State at this time: the newest row of each key then.", metavar=TIME)]
Current = Annotated[bool, typer.Option("--current", help="State now: the newest row of each key.")]
Cluster = Annotated[str | None, _name("this cluster, or a glob such as 'prod-*'", CLUSTERS)]
Group = Annotated[str | None, _name("this consumer group, or a glob", GROUPS)]
Topic = Annotated[str | None, _name("this topic, or a glob", TOPICS)]
Broker = Annotated[str | None, _name("this broker, or a glob", BROKERS)]
FormatName = Annotated[
    str,
    format_option(*FORMATS, text="table, wide (all columns, a line a row), json, csv or parquet."),
]


def _limit(which: str) -> Any:
    help_ = f"The {which} N rows; 0 is all. Default: {TABLE_ROWS} in a table, all in other formats."
    return typer.Option(min=0, max=MOST_ROWS, help=help_, metavar="N")


Limit = Annotated[int | None, _limit("newest")]
FirstLimit = Annotated[int | None, _limit("first")]


@dataclass(frozen=True)
class QueryOptions:
    """Parsed options. Times are epoch ms, both ends included. `names` maps a given option to its name or glob, or to
    the chosen values of a closed list.

    Rows older than `stale_ms` (board.stale_seconds) do not show the current state. `runbooks_url` is the prefix of
    runbook links.
    """

    warehouse: Location
    since_ms: int | None = None
    until_ms: int | None = None
    at_ms: int | None = None
    is_current: bool = False
    names: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    limit: int | None = None
    format: Format = "table"
    stale_ms: int = 660_000
    runbooks_url: str = ""
    mutes: Sequence[Mute] = ()
    labels: LabelRules = ()


def parse_options(
    *,
    since: str | None = None,
    until: str | None = None,
    at: str | None = None,
    current: bool = False,
    format_: str = "table",
    limit: int | None = None,
    warehouse: Location | None = None,
    **names: str | tuple[str, ...] | None,
) -> QueryOptions:
    """Return the parsed options; `names` are names, globs or chosen values by option.

    Leaves with 2 and a sentence that names the option where one is invalid.
    """
    given = {name: glob for name, glob in names.items() if glob is not None}
    for name, glob in given.items():
        if not 0 < len(glob) <= MOST_CHARACTERS:
            fail(f"--{name} {glob[:50]!r}: give 1 to {MOST_CHARACTERS} characters", code=2)
    if at is not None and (since is not None or until is not None or current):
        fail("--at excludes --since, --until and --current", code=2)
    now_ms = wall_ms()
    since_ms, until_ms = moment("--since", since, now_ms), moment("--until", until, now_ms)
    if since_ms is not None and since_ms > (now_ms if until_ms is None else until_ms):
        fail(f"--since {since} is not before --until {until or 'now'}", code=2)
    at_ms = moment("--at", at, now_ms)
    if at_ms is not None and at_ms > now_ms:
        fail(f"--at {at} is in the future ({both_times(at_ms)}); give a past time", code=2)
    settings = load(logs_to_stderr=False, paths={"warehouse": warehouse})
    return QueryOptions(
        warehouse=settings.paths.warehouse,
        since_ms=since_ms,
        until_ms=until_ms,
        at_ms=at_ms,
        is_current=current,
        names=given,
        limit=(limit or None) if limit is not None else (TABLE_ROWS if format_ in ("table", "wide") else None),
        format=cast(Format, format_),
        stale_ms=round(settings.board.stale_seconds * 1000),
        runbooks_url=settings.runbooks_url,
        mutes=make_mutes(settings.mutes),
        labels=settings.label_rules,
    )


def moment(flag: str, text: str | None, now_ms: int) -> int | None:
    """Return epoch ms. Leaves with 2 for an invalid time."""
    try:
        return None if text is None else parse_moment(text, now_ms)
    except ValueError as error:
        fail(f"{flag} {error}", code=2)
