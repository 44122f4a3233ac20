"""What a command asks a table, as data, and the SQL: which rows of which files, whether the newest of each key."""

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
"""SQL that is true where what a row has compares with a parameter; `{}` of `compare` is the row's side."""


def equals(column: str) -> Condition:
    return lambda compare: compare.format(column)


def any_of(items: str) -> Condition:
    """For a list, of which one must compare."""
    return lambda compare: f"len(list_filter({items}, lambda item: {compare.format('item')})) > 0"


@dataclass(frozen=True)
class Named:
    """An option that names something, or is a glob. `option` is its type as Typer reads it, with its help."""

    option: Any
    condition: Condition


@dataclass(frozen=True)
class States:
    """The option --state: `sql` is a row's state, of `values`. `of_moment` are taken where a moment is asked about
    and no state is given; none asks nothing.
    """

    help: str
    sql: str
    values: tuple[str, ...]
    of_moment: tuple[str, ...] = ()

    @property
    def option(self) -> Any:
        return typer.Option(help=self.help)


@dataclass(frozen=True)
class Question:
    """A command about the rows of a table.

    help      the command's help, its examples last
    filters   options between the times and the form, in help's order, by name; `state` and `cluster` among them
    show      prints rows for people; where there is none they read `nothing`
    present   a row as JSON and CSV show it; None has the columns plain
    wrap      SQL around the rows, `{rows}`
    beside    further tables that `wrap` reads
    has_commands  there are commands below it (streaming.cli)
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
    """Oldest first, those of one moment by batch and key; of more than the limit the newest. Raises WarehouseError."""
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
    """The rows asked for, in no order, and the parameters."""
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
    for name, glob in options.names.items():
        yield of[name](f"{{}} {'GLOB' if is_glob(glob) else '='} ${name}"), {name: glob}
    if "cluster" not in options.names:
        yield f"{of['cluster']('{}')} IS DISTINCT FROM $canary", {"canary": CANARY_CLUSTER}
    if options.states:
        yield f"list_contains($states, {question.states.sql})", {"states": list(options.states)}
    if options.is_current:
        for sign, at_ms in ((">=", options.since_ms), ("<=", options.until_ms)):
            if at_ms is not None:
                yield f"{question.table.time} {sign} make_timestamptz({at_ms}::BIGINT * 1000)", {}


def is_glob(text: str) -> bool:
    """Whether it has any of fnmatch's signs, which DuckDB's GLOB shares."""
    return any(sign in text for sign in "*?[")
