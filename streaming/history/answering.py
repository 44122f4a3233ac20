"""How a command about the history answers: the tables asked, what was found printed, what there is to know noted."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from schemas.tables import Table
from streaming.command import fail
from streaming.history.asked import Asked
from streaming.history.freshness import LIVE_TABLES, read_freshness, tell_stale
from streaming.history.moments import tell_both
from streaming.history.printing import Records, print_answer
from streaming.history.selecting import Subject, select
from streaming.history.store import History
from streaming.history.warehouse_error import WarehouseError
from streaming.output import note
from udfs.prose import count

MANY_FILES = 1_000


def answer(
    subject: Subject,
    asked: Asked,
    show: Callable[[Records], None],
    nothing: str,
    present: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    *,
    beside: tuple[Table, ...] = (),
    more: Mapping[str, str | None] | None = None,
) -> None:
    """Print the rows of `subject` as asked: to people by `show`, or `nothing`; to machines as `present` makes them.

    `beside` are further tables that the subject reads. Leaves with 1 and a sentence when the tables cannot be asked.
    """
    is_of_moment = subject.table in LIVE_TABLES and (asked.is_current or asked.at_ms is not None)
    try:
        history = open_history(asked, subject.table, *beside, *(LIVE_TABLES if is_of_moment else ()))
        found = select(history, subject, asked, more)
        print_answer(found.rows, asked.format, show, nothing, present)
        stale = _stale(asked, history) if is_of_moment else ""
    except WarehouseError as error:
        fail(str(error))
    print_notes(asked, history, (subject.table, *beside), stale, is_cut=found.is_cut)


def open_history(asked: Asked, table: Table, *beside: Table) -> History:
    """The tables that are needed. Raises WarehouseError where the first one is not there."""
    history = History(asked.warehouse, list({one.name: one for one in (table, *beside)}.values()))
    if table.name not in history.versions:
        raise WarehouseError(
            f"paths.warehouse = {str(asked.warehouse)!r}: no {table.name} table there; has `run` written it?"
        )
    return history


def print_notes(asked: Asked, history: History, tables: tuple[Table, ...], stale: str = "", *, is_cut: bool) -> None:
    """To stderr: what was asked, and what keeps the answer from being the whole one."""
    for line in _notes(asked, history, tables, stale, is_cut=is_cut):
        note(line)


def _stale(asked: Asked, history: History) -> str:
    at_ms = time.time_ns() // 1_000_000 if asked.at_ms is None else asked.at_ms
    return tell_stale(read_freshness(history, at_ms, asked.stale_ms))


def _notes(asked: Asked, history: History, tables: tuple[Table, ...], stale: str, *, is_cut: bool) -> Iterator[str]:
    if asked.format == "table":
        if asked.at_ms is not None:
            yield f"as of {tell_both(asked.at_ms)}"
        if asked.since_ms is not None or asked.until_ms is not None:
            since = f"from {tell_both(asked.since_ms)} " if asked.since_ms is not None else ""
            yield f"{since}until {'now' if asked.until_ms is None else tell_both(asked.until_ms)}"
    if stale:
        yield stale
    if is_cut:
        yield f"the newest {count(asked.limit or 0, 'row')}; there are more, and --limit 0 prints all"
    for name in dict.fromkeys(table.name for table in tables):
        files = history.file_counts.get(name, 0)
        if files > MANY_FILES:
            yield f"table {name} has {files:,} files, each of which takes time; `balancewatch maintain` joins them"
