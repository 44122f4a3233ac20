"""What was asked, as SQL: which rows of which files, whether the newest of each key, and which of those."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from schemas.tables import Table
from streaming.history.asked import Asked
from streaming.history.found import Found
from streaming.history.store import History
from udfs.rulebook import CANARY_CLUSTER

Condition = Callable[[str], str]
"""SQL that is true where what a row has compares with a parameter; `{}` of `compare` is the row's side."""


def equals(column: str) -> Condition:
    return lambda compare: compare.format(column)


def any_of(items: str) -> Condition:
    """For a list, of which one must compare."""
    return lambda compare: f"len(list_filter({items}, lambda item: {compare.format('item')})) > 0"


_CLUSTER = equals("cluster")


@dataclass(frozen=True)
class Subject:
    """What a command asks about: a table, and what of its rows each option compares; None where it compares nothing.

    `wrap` is SQL around the rows, `{rows}`. `more` are options of the command's own: name to its condition.
    """

    table: Table
    cluster: Condition | None = _CLUSTER
    group: Condition | None = None
    topic: Condition | None = None
    broker: Condition | None = None
    state: str | None = None
    wrap: str = "SELECT * FROM {rows}"
    more: Mapping[str, Condition] = field(default_factory=dict)


def select(history: History, subject: Subject, asked: Asked, more: Mapping[str, str | None] | None = None) -> Found:
    """Oldest first, those of one moment by batch and key; of more than the limit the newest.

    `more` are the values of the subject's own options, globs too. Raises WarehouseError.
    """
    sql, params = sql_of(history, subject, asked, more or {})
    order = ", ".join(f'"{column}"{{0}}' for column in (subject.table.time, "batch_id", *subject.table.key))
    if asked.limit is None:
        return Found(history.stream(f"{sql} ORDER BY {order.format('')}", params), is_cut=False)
    newest = f"{sql} ORDER BY {order.format(' DESC NULLS FIRST')} LIMIT {asked.limit + 1}"
    rows = history.query(f"SELECT * FROM ({newest}) ORDER BY {order.format('')}", params)
    is_cut = rows.num_rows > asked.limit
    return Found(rows.slice(int(is_cut)).to_reader(), is_cut)


def sql_of(
    history: History, subject: Subject, asked: Asked, more: Mapping[str, str | None]
) -> tuple[str, dict[str, Any]]:
    """The rows asked for, in no order, and the parameters."""
    table = subject.table
    if asked.at_ms is not None:
        rows = history.newest(table, asked.at_ms)
    elif asked.is_current:
        rows = history.newest(table)
    else:
        rows = history.between(table, asked.since_ms, asked.until_ms)
    wrapped = subject.wrap.format(rows=rows)
    conditions, params = [], {}
    for condition, value in _conditions(subject, asked, more):
        conditions.append(condition)
        params.update(value)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT * FROM ({wrapped}){where}", params


def _conditions(subject: Subject, asked: Asked, more: Mapping[str, str | None]) -> Iterator[tuple[str, dict[str, Any]]]:
    of_asked = {
        name: (getattr(subject, name), getattr(asked, name)) for name in ("cluster", "group", "topic", "broker")
    }
    for name, (condition, glob) in {**of_asked, **{name: (subject.more[name], more[name]) for name in more}}.items():
        if glob is not None and condition is not None:
            yield condition(f"{{}} {'GLOB' if is_glob(glob) else '='} ${name}"), {name: glob}
    if asked.cluster is None and subject.cluster is not None:
        yield f"{subject.cluster('{}')} IS DISTINCT FROM $canary", {"canary": CANARY_CLUSTER}
    if asked.states and subject.state is not None:
        yield f"list_contains($states, {subject.state})", {"states": list(asked.states)}
    if asked.is_current:
        for sign, at_ms in ((">=", asked.since_ms), ("<=", asked.until_ms)):
            if at_ms is not None:
                yield f"{subject.table.time} {sign} make_timestamptz({at_ms}::BIGINT * 1000)", {}


def is_glob(text: str) -> bool:
    """Whether it has any of fnmatch's signs, which DuckDB's GLOB shares."""
    return any(sign in text for sign in "*?[")
