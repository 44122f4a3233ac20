"""DuckDB's SQL for a table's files, and for the newest row of each key, in the form that it answers fastest."""

from collections.abc import Sequence

from schemas.tables import ColumnType, Table

_TYPES = {ColumnType.STRINGS: "VARCHAR[]", ColumnType.TIMESTAMP: "TIMESTAMPTZ", ColumnType.BINARY: "BLOB"}
"""DuckDB's names of the types that it calls otherwise than Spark."""


def rows_of(table: Table, paths: Sequence[str]) -> str:
    """All rows of these files. Columns of the contract that a file lacks are null."""
    columns = [f'NULL::{_TYPES.get(one.type, one.type.value)} AS "{one.name}"' for one in table.columns]
    nothing = f"SELECT {', '.join(columns)} WHERE false"
    if not paths:
        return nothing
    return f"{nothing} UNION ALL BY NAME SELECT * FROM {files_as_rows(paths)}"


def files_as_rows(paths: Sequence[str]) -> str:
    """These very files, whatever their names: a column that only some have is null in the others."""
    listed = ", ".join("'" + no_pattern(path).replace("'", "''") + "'" for path in paths)
    return f"read_parquet([{listed}], union_by_name = true)"


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
