"""Commands that print the rows of a table: each is declared as a Question, and `command_of` makes it a command.

A question selects all rows of a span, or the newest row of each key. Notes about the rows go to stderr.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any

import typer

from schemas.tables import Table
from streaming.history.query_options import At, Current, FormatName, Limit, QueryOptions, Since, Until, parse_options
from streaming.store.current import NAMED_BY, read_names
from streaming.store.freshness import LIVE_TABLES, describe_stale, read_freshness
from streaming.store.store import History
from streaming.store.table_files import conditions_of
from streaming.terminal.command import choose, fail
from streaming.terminal.printing import Records, print_answer
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import note
from streaming.text.result import Found
from streaming.text.suggestions import suggest
from streaming.text.times import both_times, wall_ms
from streaming.warehouse.warehouse_error import NotWrittenError, WarehouseError
from udfs.alerts.prose import count
from udfs.alerts.rulebook import CANARY_CLUSTER

MANY_FILES = 1_000

Condition = Callable[[str], str]
"""Return SQL that compares a row with a parameter; `{}` in the argument stands for the row's value."""


def equals(column: str) -> Condition:
    return lambda compare: compare.format(column)


def any_of(items: str) -> Condition:
    """Return the condition for a list of which at least one item compares."""
    return lambda compare: f"len(list_filter({items}, lambda item: {compare.format('item')})) > 0"


@dataclass(frozen=True)
class Named:
    """An option that takes a name or a glob; with `values`, several of that closed list.

    `option` is its type as Typer reads it, with its help. `of_current` and `of_at` are the values without the option,
    with --current and with --at; empty means all. `is_prefix`: a name also stands for those that it begins.
    """

    option: Any
    condition: Condition
    values: tuple[str, ...] = ()
    of_current: tuple[str, ...] = ()
    of_at: tuple[str, ...] = ()
    is_prefix: bool = False


@dataclass(frozen=True)
class Question:
    """A command that prints the rows of a table.

    help      the command's help, its examples last
    names     the options for names, in the order of the help; without --cluster the canary's rows are left out
    show      prints rows for people; `nothing` is the sentence without a row
    present   converts a row for JSON and CSV; None keeps the columns
    has_commands  the command has subcommands (streaming.cli)
    wrap      SQL around the rows, `{rows}`, which may read the newest rows of a table of `beside` by its name in braces
    """

    table: Table
    help: str
    names: Mapping[str, Named]
    show: Callable[[Records], None]
    nothing: str
    present: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    wrap: str = "SELECT * FROM {rows}"
    beside: tuple[Table, ...] = ()
    has_commands: bool = False


def select(history: History, question: Question, options: QueryOptions) -> Found:
    """Return rows oldest first, ties by batch and key; with a limit the newest ones. Raises WarehouseError."""
    table, limit = question.table, options.limit
    if options.at_ms is not None:
        rows = history.newest(table, options.at_ms)
    elif options.is_current:
        rows = history.newest(table)
    else:
        rows = history.between(table, options.since_ms, options.until_ms)
    where, params = where_named(options, {name: named.condition for name, named in question.names.items()})
    if options.is_current:
        where = " AND ".join([where, *conditions_of(table, options.since_ms, options.until_ms)])
    beside = {one.name: history.newest(one, options.at_ms) for one in question.beside}
    sql = f"SELECT * FROM ({question.wrap.format(rows=rows, **beside)}) WHERE {where}"
    columns = [f'"{name}"' for name in (table.time, "batch_id", *table.key)]
    if limit is None:
        return Found(history.stream(f"{sql} ORDER BY {', '.join(columns)}", params), is_cut=False)
    newest = f"{sql} ORDER BY {', '.join(f'{name} DESC NULLS FIRST' for name in columns)} LIMIT {limit + 1}"
    found = history.query(f"SELECT * FROM ({newest}) ORDER BY {', '.join(columns)}", params)
    is_cut = found.num_rows > limit
    return Found(found.slice(int(is_cut)).to_reader(), is_cut)


def where_named(options: QueryOptions, conditions: Mapping[str, Condition]) -> tuple[str, dict[str, Any]]:
    """Return SQL that compares a row with the given names, and its parameters.

    Without --cluster the canary's rows are left out, if rows have a cluster.
    """
    clauses, params = ["true"], dict[str, Any]()
    for name, value in options.names.items():
        if isinstance(value, str):
            compare, params[name] = f"{{}} {'GLOB' if is_glob(value) else '='} ${name}", value
        else:
            compare, params[name] = f"list_contains(${name}, {{}})", list(value)
        clauses.append(conditions[name](compare))
    if "cluster" in conditions and "cluster" not in options.names:
        clauses.append(f"{conditions['cluster']('{}')} IS DISTINCT FROM $canary")
        params["canary"] = CANARY_CLUSTER
    return " AND ".join(clauses), params


def is_glob(text: str) -> bool:
    """Return whether the text has one of fnmatch's signs, which DuckDB's GLOB shares."""
    return any(sign in text for sign in "*?[")


def command_of(question: Question, run: Callable[..., None] | None = None, **flags: Any) -> Callable[..., None]:
    """Return the function that Typer makes the command of: `run`, or run_query, of the question and its options.

    `flags` are the types of more options, which are False by default and passed to `run`.
    """

    def command(*, context: Any = None, current: bool, at: str | None, **given: Any) -> None:
        if context is not None and context.invoked_subcommand is not None:
            _refuse_options(context)
            return
        asked = {name: given.pop(name) for name in flags}
        for name, named in question.names.items():
            text = given[name]
            if text is None:
                given[name] = (named.of_current if current else named.of_at if at is not None else ()) or None
            elif named.values:
                given[name] = choose(f"--{name}", text.upper() if name == "state" else text, named.values)
            elif named.is_prefix and not is_glob(text):
                given[name] = f"{text}*"
        (run or run_query)(question, parse_options(current=current, at=at, **given), **asked)

    options = {
        **({"context": typer.Context} if question.has_commands else {}),
        **flags,
        **{"current": Current, "since": Since, "until": Until, "at": At},
        **{name: named.option for name, named in question.names.items()},
        **{"format_": FormatName, "limit": Limit, "warehouse": Warehouse},
    }
    defaults = {"current": False, "format_": "table", **dict.fromkeys(flags, False)}
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


def run_query(question: Question, options: QueryOptions) -> None:
    """Print the requested rows, and to stderr the time that was asked for, and why rows may be incomplete or late.

    Leaves with 1 and a sentence where the tables cannot be read.
    """
    table, beside = question.table, question.beside
    is_of_moment = table in LIVE_TABLES and (options.is_current or options.at_ms is not None)
    try:
        history = open_history(options, table, *beside, *(LIVE_TABLES if is_of_moment else ()))
        found = select(history, question, options)
        rows = print_answer(found.rows, options.format, question.show, question.nothing, question.present)
        notes = read_notes(history, options, is_empty=not rows and "cluster" in question.names, is_now=is_of_moment)
    except WarehouseError as error:
        fail(str(error))
    if options.format in ("table", "wide"):
        if options.at_ms is not None:
            note(f"as of {both_times(options.at_ms)}")
        if options.since_ms is not None or options.until_ms is not None:
            since = f"from {both_times(options.since_ms)} " if options.since_ms is not None else ""
            note(f"{since}until {'now' if options.until_ms is None else both_times(options.until_ms)}")
    for line in notes:
        note(line)
    if found.is_cut:
        note(f"only the newest {count(options.limit or 0, 'row')}; --limit 0 prints all")
    for name, files in history.file_counts.items():
        if files > MANY_FILES and name in (table.name, *(one.name for one in beside)):
            note(f"table {name} has {files:,} files, which slows queries; `balancewatch maintain` compacts them")


def read_notes(history: History, options: QueryOptions, *, is_empty: bool, is_now: bool = True) -> list[str]:
    """Return sentences about an answer: unknown names if it is empty; stale data if it is the state of a moment."""
    notes = list(unknown_names(options)) if is_empty else []
    if is_now:
        at_ms = wall_ms() if options.at_ms is None else options.at_ms
        notes.append(describe_stale(read_freshness(history, at_ms, options.stale_ms)))
    return [line for line in notes if line]


def unknown_names(options: QueryOptions) -> Iterator[str]:
    """Yield a sentence for each name, not a glob, that no table of the query has."""
    names = {name: value for name, value in options.names.items() if name in NAMED_BY and isinstance(value, str)}
    history = History(options.warehouse, list(LIVE_TABLES)) if names else None
    for name, value in names.items():
        if history is not None and not is_glob(value) and value not in (known := read_names(history, name)):
            yield f"no such {name}: {value!r}{suggest(value, known)}"


def open_history(options: QueryOptions, table: Table, *beside: Table) -> History:
    """Open the tables. Raises NotWrittenError where the first one does not exist."""
    history = History(options.warehouse, list({one.name: one for one in (table, *beside)}.values()))
    if table.name not in history.versions:
        raise NotWrittenError(options.warehouse, table.name)
    return history
