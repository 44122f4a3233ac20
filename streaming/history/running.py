"""How a command about the history answers: the tables asked, what was found printed, what there is to know noted.

`command_of` makes the command of a question that is written as data.
"""

from collections.abc import Callable, Iterator
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from schemas.tables import Table
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
from streaming.history.table_question import Question, States, select
from streaming.store.freshness import LIVE_TABLES, describe_stale, read_freshness
from streaming.store.store import History
from streaming.terminal.command import fail
from streaming.terminal.printing import print_answer
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import note
from streaming.text.times import both_times, wall_ms
from streaming.warehouse.warehouse_error import NotWrittenError, WarehouseError
from udfs.alerts.prose import count

MANY_FILES = 1_000


def command_of(question: Question) -> Callable[..., None]:
    """The function that Typer makes the command of: the question's options, and what it prints for them."""

    def command(
        *, context: Any = None, current: bool, at: str | None, state: str | None, format_: str, **given: Any
    ) -> None:
        if context is not None and context.invoked_subcommand is not None:
            _refuse_options(context)
            return
        states = question.states
        if state is None and states.of_moment and (current or at is not None):
            state = ",".join(states.of_moment)
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
    """Leaves with 2 where one was given before a command below this one, which would not see it."""
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is not None and source.name == "COMMANDLINE":
            below = context.invoked_subcommand
            fail(f"{parameter.opts[0]} stands before {below}, which does not see it; give it after, or not", code=2)


_TIMES = {"current": Current, "since": Since, "until": Until, "at": At}
_FORM = {"format_": FormatName, "limit": Limit, "warehouse": Warehouse}


def run_query(question: Question, options: QueryOptions) -> None:
    """Print the rows asked for. Leaves with 1 and a sentence when the tables cannot be asked."""
    table, beside = question.table, question.beside
    is_of_moment = table in LIVE_TABLES and (options.is_current or options.at_ms is not None)
    try:
        history = open_history(options, table, *beside, *(LIVE_TABLES if is_of_moment else ()))
        found = select(history, question, options)
        print_answer(found.rows, options.format, question.show, question.nothing, question.present)
        stale = _stale(options, history) if is_of_moment else ""
    except WarehouseError as error:
        fail(str(error))
    print_notes(options, history, (table, *beside), stale, is_cut=found.is_cut)


def open_history(options: QueryOptions, table: Table, *beside: Table) -> History:
    """The tables that are needed. Raises NotWrittenError where the first one is not there."""
    history = History(options.warehouse, list({one.name: one for one in (table, *beside)}.values()))
    if table.name not in history.versions:
        raise NotWrittenError(options.warehouse, table.name)
    return history


def print_notes(
    options: QueryOptions, history: History, tables: tuple[Table, ...], stale: str = "", *, is_cut: bool
) -> None:
    """To stderr: what was asked, and what keeps the answer from being the whole one."""
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
        yield f"the newest {count(options.limit or 0, 'row')}; there are more, and --limit 0 prints all"
    for name in dict.fromkeys(table.name for table in tables):
        files = history.file_counts.get(name, 0)
        if files > MANY_FILES:
            yield f"table {name} has {files:,} files, each of which takes time; `balancewatch maintain` joins them"
