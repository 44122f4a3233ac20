"""DuckDB's SQL for a table's files, and for the newest row of each key, in the form that it answers fastest."""

import re
from collections.abc import Mapping, Sequence

from schemas.tables import ColumnType, Table
from streaming.store.table_files import TableFiles

_TYPES = {ColumnType.STRINGS: "VARCHAR[]", ColumnType.TIMESTAMP: "TIMESTAMPTZ", ColumnType.BINARY: "BLOB"}
"""DuckDB's names of the types that it calls otherwise than Spark."""


def rows_of(table: Table, paths: Sequence[str], condition: str = "") -> str:
    """All rows of these files that meet the condition. Columns of the contract that a file lacks are null."""
    columns = [f'NULL::{_TYPES.get(one.type, one.type.value)} AS "{one.name}"' for one in table.columns]
    nothing = f"SELECT {', '.join(columns)} WHERE false"
    if not paths:
        return nothing
    rows = f"{nothing} UNION ALL BY NAME SELECT * FROM {files_as_rows(paths)}"
    return f"SELECT * FROM ({rows}) WHERE {condition}" if condition else rows


def files_as_rows(paths: Sequence[str]) -> str:
    """These very files, whatever their names: a column that only some have is null in the others."""
    listed = ", ".join("'" + no_pattern(path).replace("'", "''") + "'" for path in paths)
    return f"read_parquet([{listed}], union_by_name = true)"


def span_name(table: Table, since_ms: int | None, until_ms: int | None) -> str:
    """The name in SQL of the table's rows with times in [since, until]; None is without end. See `with_spans`."""
    return f'"{table.name}[{"" if since_ms is None else since_ms}..{"" if until_ms is None else until_ms}]"'


def with_spans(sql: str, files: Mapping[str, TableFiles]) -> str:
    """The SQL with a query of the files of now for each `span_name`; they may be others when it is asked again."""

    def rows_between(name: re.Match[str]) -> str:
        of_table = files[name["table"]]
        since_ms, until_ms = (int(name[end]) if name[end] else None for end in ("since", "until"))
        conditions = [
            f"{of_table.table.time} {sign} make_timestamptz({at_ms}::BIGINT * 1000)"
            for sign, at_ms in ((">=", since_ms), ("<=", until_ms))
            if at_ms is not None
        ]
        rows = rows_of(of_table.table, of_table.between(since_ms, until_ms), of_table.readable)
        return f"(SELECT * FROM ({rows}) WHERE {' AND '.join(conditions) or 'true'})"

    return _SPAN.sub(lambda name: rows_between(name) if name["table"] in files else name[0], sql)


_SPAN = re.compile(r'"(?P<table>\w+)\[(?P<since>-?\d*)\.\.(?P<until>-?\d*)\]"')


def newest_of(table: Table, rows: str) -> str:
    """What schemas.views.newest_sql says, four times as fast: the key is grouped, and the rest is one value.

    `rows` is a view's name or a subquery. A filter on key columns is applied before the grouping.
    """
    key = ", ".join(f'"{name}"' for name in table.key)
    rest = [name for name in table.names if name not in table.key]
    packed = ", ".join(f'"{name}" := "{name}"' for name in rest)
    picked = ", ".join(f'"{name}"' if name in table.key else f'newest."{name}" AS "{name}"' for name in table.names)
    return (
        f"SELECT {picked} FROM (SELECT {key}, arg_max(struct_pack({packed}), ({table.time}, batch_id)) AS newest "
        f"FROM {rows} GROUP BY {key})"
    )


def no_pattern(path: str) -> str:
    """The path with nothing in it that DuckDB takes for a pattern."""
    return path.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]")
