"""Questions to a table as data, and their SQL: all rows of a span, or the newest row of each key."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import typer

from schemas.tables import Table
from streaming.history.query_options import QueryOptions
from streaming.store.store import History
from streaming.terminal.printing import Records
from streaming.text.result import Found
from udfs.alerts.rulebook import CANARY_CLUSTER

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

    `option` is its type as Typer reads it, with its help.
    """

    option: Any
    condition: Condition
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class States:
    """The option --state: `sql` is a row's state, one of `values`. `of_moment` are the default with --current or --at;
    empty means all.
    """

    help: str
    sql: str
    values: tuple[str, ...]
    of_moment: tuple[str, ...] = ()

    @property
    def option(self) -> Any:
        return typer.Option(help=self.help, metavar="STATE")


@dataclass(frozen=True)
class Question:
    """A command that prints the rows of a table.

    help      the command's help, its examples last
    filters   options by name, in the order of the help; `state` and `cluster` are required
    show      prints rows for people; `nothing` is the sentence without a row
    present   converts a row for JSON and CSV; None keeps the columns
    wrap      SQL around the rows, `{rows}`
    beside    other tables that `wrap` reads
    has_commands  the command has subcommands (streaming.cli)
    """

    table: Table
    help: str
    filters: Mapping[str, Named | States]
    show: Callable[[Records], None]
    nothing: str
    present: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    wrap: str = "SELECT * FROM {rows}"
    beside: tuple[Table, ...] = ()
    has_commands: bool = False

    @property
    def states(self) -> States:
        (found,) = (one for one in self.filters.values() if isinstance(one, States))
        return found

    @property
    def conditions(self) -> dict[str, Condition]:
        return {name: one.condition for name, one in self.filters.items() if isinstance(one, Named)}


def select(history: History, question: Question, options: QueryOptions) -> Found:
    """Return rows oldest first, ties by batch and key; with a limit the newest ones. Raises WarehouseError."""
    table = question.table
    sql, params = sql_of(history, question, options)
    order = ", ".join(f'"{column}"{{0}}' for column in (table.time, "batch_id", *table.key))
    if options.limit is None:
        return Found(history.stream(f"{sql} ORDER BY {order.format('')}", params), is_cut=False)
    newest = f"{sql} ORDER BY {order.format(' DESC NULLS FIRST')} LIMIT {options.limit + 1}"
    rows = history.query(f"SELECT * FROM ({newest}) ORDER BY {order.format('')}", params)
    is_cut = rows.num_rows > options.limit
    return Found(rows.slice(int(is_cut)).to_reader(), is_cut)


def sql_of(history: History, question: Question, options: QueryOptions) -> tuple[str, dict[str, Any]]:
    """Return unordered SQL of the requested rows, and its parameters."""
    table = question.table
    if options.at_ms is not None:
        rows = history.newest(table, options.at_ms)
    elif options.is_current:
        rows = history.newest(table)
    else:
        rows = history.between(table, options.since_ms, options.until_ms)
    conditions, params = [], {}
    for condition, value in _conditions(question, options):
        conditions.append(condition)
        params.update(value)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT * FROM ({question.wrap.format(rows=rows)}){where}", params


def _conditions(question: Question, options: QueryOptions) -> Iterator[tuple[str, dict[str, Any]]]:
    of = question.conditions
    for name, value in options.names.items():
        if isinstance(value, str):
            yield of[name](f"{{}} {'GLOB' if is_glob(value) else '='} ${name}"), {name: value}
        else:
            yield of[name](f"list_contains(${name}, {{}})"), {name: list(value)}
    if "cluster" not in options.names:
        yield f"{of['cluster']('{}')} IS DISTINCT FROM $canary", {"canary": CANARY_CLUSTER}
    if options.states:
        yield f"list_contains($states, {question.states.sql})", {"states": list(options.states)}
    if options.is_current:
        for sign, at_ms in ((">=", options.since_ms), ("<=", options.until_ms)):
            if at_ms is not None:
                yield f"{question.table.time} {sign} make_timestamptz({at_ms}::BIGINT * 1000)", {}


def is_glob(text: str) -> bool:
    """Return whether the text has one of fnmatch's signs, which DuckDB's GLOB shares."""
    return any(sign in text for sign in "*?[")
