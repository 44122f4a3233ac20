"""Commands that query the tables: read rows, print them, and print notes about them to stderr.

`command_of` makes the command of a Question.
"""

from collections.abc import Callable, Iterator
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from schemas.tables import ALERTS, ASSIGNMENTS, MEMBERSHIPS, Table
from streaming.history.query_options import (
    At,
    Current,
    FormatName,
    Limit,
    QueryOptions,
    Since,
    Until,
    parse_options,
)
from streaming.history.table_question import Named, Question, States, is_glob, select
from streaming.store.freshness import LIVE_TABLES, describe_stale, read_freshness
from streaming.store.store import History
from streaming.terminal.choices import choose
from streaming.terminal.command import fail
from streaming.terminal.printing import print_answer
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import note
from streaming.text.suggestions import suggest
from streaming.text.times import both_times, wall_ms
from streaming.warehouse.warehouse_error import NotWrittenError, WarehouseError
from udfs.alerts.prose import count

MANY_FILES = 1_000


def command_of(question: Question) -> Callable[..., None]:
    """Return the function that Typer makes the command of."""

    def command(
        *, context: Any = None, current: bool, at: str | None, state: str | None, format_: str, **given: Any
    ) -> None:
        if context is not None and context.invoked_subcommand is not None:
            _refuse_options(context)
            return
        states = question.states
        if state is None and states.of_moment and (current or at is not None):
            state = ",".join(states.of_moment)
        for name, one in question.filters.items():
            if isinstance(one, Named) and one.values and given[name] is not None:
                given[name] = choose(f"--{name}", given[name], one.values)
        run_query(
            question, parse_options(current=current, at=at, state=state, states=states.values, format_=format_, **given)
        )

    filters = {
        name: Annotated[str | None, one.option] if isinstance(one, States) else one.option
        for name, one in question.filters.items()
    }
    options = {**({"context": typer.Context} if question.has_commands else {}), **_TIMES, **filters, **_FORM}
    defaults = {"current": False, "format_": "table"}
    command.__doc__ = question.help
    command.__annotations__ = options
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=option)
        for name, option in options.items()
    ]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # what `inspect` looks for first
    return command


def _refuse_options(context: typer.Context) -> None:
    """Leave with 2 where an option was given before the subcommand, which would ignore it."""
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is not None and source.name == "COMMANDLINE":
            below = context.invoked_subcommand
            fail(f"{parameter.opts[0]} before {below} has no effect; give it after {below}, or leave it out", code=2)


_TIMES = {"current": Current, "since": Since, "until": Until, "at": At}
_FORM = {"format_": FormatName, "limit": Limit, "warehouse": Warehouse}


def run_query(question: Question, options: QueryOptions) -> None:
    """Print the requested rows. Leaves with 1 and a sentence where the tables cannot be read."""
    table, beside = question.table, question.beside
    is_of_moment = table in LIVE_TABLES and (options.is_current or options.at_ms is not None)
    try:
        history = open_history(options, table, *beside, *(LIVE_TABLES if is_of_moment else ()))
        found = select(history, question, options)
        rows = print_answer(found.rows, options.format, question.show, question.nothing, question.present)
        unknown = [] if rows else list(_unknown_names(options))
        stale = _stale(options, history) if is_of_moment else ""
    except WarehouseError as error:
        fail(str(error))
    for line in unknown:
        note(line)
    print_notes(options, history, (table, *beside), stale, is_cut=found.is_cut)


NAMED_BY = {
    "cluster": dict.fromkeys(LIVE_TABLES, "cluster"),
    "group": {ALERTS: "consumer_group", ASSIGNMENTS: "consumer_group", MEMBERSHIPS: "consumer_group"},
    "topic": {ALERTS: "topic", ASSIGNMENTS: "topic", MEMBERSHIPS: "unnest(topics)"},
    "broker": {
        ALERTS: "unnest(string_split(broker_name, ','))",
        **{table: "broker_name" for table in LIVE_TABLES if table is not ALERTS},
    },
}
"""Option to the tables, and their columns, that know its names."""


def _unknown_names(options: QueryOptions) -> Iterator[str]:
    """Yield a sentence for each name, not a glob, that no table of the query has."""
    names = {name: value for name, value in options.names.items() if name in NAMED_BY and isinstance(value, str)}
    if not names:
        return
    history = History(options.warehouse, list(LIVE_TABLES))
    for name, value in names.items():
        union = " UNION ".join(f"SELECT {column} AS name FROM {table.name}" for table, column in NAMED_BY[name].items())
        known = {row["name"] for row in history.rows(f"SELECT DISTINCT name FROM ({union}) WHERE name <> ''")}
        if not is_glob(value) and value not in known:
            yield f"no such {name}: {value!r}{suggest(value, known)}"


def open_history(options: QueryOptions, table: Table, *beside: Table) -> History:
    """Open the tables. Raises NotWrittenError where the first one does not exist."""
    history = History(options.warehouse, list({one.name: one for one in (table, *beside)}.values()))
    if table.name not in history.versions:
        raise NotWrittenError(options.warehouse, table.name)
    return history


def print_notes(
    options: QueryOptions, history: History, tables: tuple[Table, ...], stale: str = "", *, is_cut: bool
) -> None:
    """Print to stderr the time that was asked for, and why the rows may be incomplete or late."""
    for line in _notes(options, history, tables, stale, is_cut=is_cut):
        note(line)


def _stale(options: QueryOptions, history: History) -> str:
    at_ms = wall_ms() if options.at_ms is None else options.at_ms
    return describe_stale(read_freshness(history, at_ms, options.stale_ms))


def _notes(
    options: QueryOptions, history: History, tables: tuple[Table, ...], stale: str, *, is_cut: bool
) -> Iterator[str]:
    if options.format == "table":
        if options.at_ms is not None:
            yield f"as of {both_times(options.at_ms)}"
        if options.since_ms is not None or options.until_ms is not None:
            since = f"from {both_times(options.since_ms)} " if options.since_ms is not None else ""
            yield f"{since}until {'now' if options.until_ms is None else both_times(options.until_ms)}"
    if stale:
        yield stale
    if is_cut:
        yield f"only the newest {count(options.limit or 0, 'row')}; --limit 0 prints all"
    for name in dict.fromkeys(table.name for table in tables):
        files = history.file_counts.get(name, 0)
        if files > MANY_FILES:
            yield f"table {name} has {files:,} files, which slows queries; `balancewatch maintain` compacts them"
