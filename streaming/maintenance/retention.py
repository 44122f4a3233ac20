"""Rows that are too old, and which of them stay: what was so at the cutoff and since is answered as before.

Nothing newer than the cutoff is touched, nor, of what is older, the newest row of a key, unless it says that the key
is gone; nor any row of an incident that was open at the cutoff. So `<table>_at(moment)` for a moment from the cutoff
on, and `<table>_now`, keep all that still holds. Rows about an incident or a message stay as long as that does: a
relay that found an incident without its deliveries would tell it again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from schemas.tables import ALERTS, QUARANTINE, Table
from streaming.store.view_text import files_as_rows
from streaming.text.times import to_time
from streaming.warehouse.file_copies import files_here
from streaming.warehouse.opening import catch_up, is_gap

MEMORY_LIMIT = "1GB"
MOST_ATTEMPTS = 5
"""Of one table; each begins with the rows as they are then."""


@dataclass(frozen=True)
class Cut:
    """What retention finds in a table at one version: rows older than the cutoff, and those of them that stay."""

    old_rows: int
    kept: pa.Table

    @property
    def dropped(self) -> int:
        return self.old_rows - int(self.kept.num_rows)


def _newest(condition: str) -> Callable[[Table], str]:
    """The newest old row of each key, where it still says something."""

    def sql(table: Table) -> str:
        newest = f"row_number() OVER (PARTITION BY {_named(table.key)} ORDER BY {table.time} DESC, batch_id DESC) = 1"
        return f"SELECT * FROM (FROM old QUALIFY {newest}) WHERE {condition}"

    return sql


def _always(sql: str) -> Callable[[Table], str]:
    return lambda _: sql


@dataclass(frozen=True)
class Subject:
    """What a table's rows are about: they stay as long as it does, so that nothing is told or done a second time.

    `gone` is SQL over the subject's rows: whether retention drops them, given the moment of the subject's own cutoff.
    """

    table: Table
    columns: tuple[str, ...]
    gone: Callable[[str], str]


INCIDENT = Subject(ALERTS, ("incident_id",), lambda moment: f"bool_or(state = 'RESOLVED' AND changed_at < {moment})")
MESSAGE = Subject(QUARANTINE, ("topic", "partition", "offset"), lambda moment: f"max(ingest_time) < {moment}")

SUBJECTS: Mapping[str, Subject] = {"alert_deliveries": INCIDENT, "acknowledgements": INCIDENT, "repairs": MESSAGE}


def _with_subject(table: Table) -> str:
    columns = _named(SUBJECTS[table.name].columns)
    return f"FROM old WHERE ({columns}) IN (SELECT ({columns}) FROM kept_subjects)"


_NONE = _always("FROM old WHERE false")

KEPT: Mapping[str, Callable[[Table], str]] = {
    "alerts": _always("FROM old WHERE incident_id NOT IN (SELECT incident_id FROM old WHERE state = 'RESOLVED')"),
    "alert_deliveries": _with_subject,
    "acknowledgements": _with_subject,
    "silences": _newest("ends_at >= cutoff()"),
    "assignments": _newest("true"),
    "memberships": _newest("change IN ('JOINED', 'CHANGED')"),
    "fault_items": _newest("NOT available"),
    "broker_health": _newest("true"),
    "quarantine": _NONE,
    "repairs": _with_subject,
    "quality": _newest("true"),
}
"""Of a table's rows older than the cutoff, `old`, those that stay."""


def find_old(handle: DeltaTable, table: Table, cutoff_ms: int, subjects: DeltaTable | None, gone_ms: int = 0) -> Cut:
    """What of the table would stay and go. `subjects` is the table of its SUBJECTS, where it has one.

    What retention would drop of that with the cutoff `gone_ms` counts as dropped already: 0 for as it is now. Files
    are read only where their statistics say that they hold old rows.
    """
    files = _old_files(handle, table, cutoff_ms)
    if not files:
        return Cut(0, pa.table({}))
    with duckdb.connect(config={"memory_limit": MEMORY_LIMIT}) as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.execute(f"CREATE MACRO cutoff() AS {_moment(cutoff_ms)}")
        engine.execute(
            f"CREATE VIEW old AS SELECT * FROM {files_as_rows(files)} WHERE {table.time} < {_moment(cutoff_ms)}"
        )
        kept_sql = KEPT[table.name](table)
        if subjects is not None and (of_subjects := files_here(subjects, subjects.file_uris())):
            engine.execute(f"CREATE VIEW rows_of_subjects AS SELECT * FROM {files_as_rows(of_subjects)}")
            engine.execute(f"CREATE VIEW kept_subjects AS {_kept_subjects(SUBJECTS[table.name], gone_ms)}")
        elif subjects is not None:
            kept_sql = "FROM old WHERE false"
        old_rows = engine.execute("SELECT count(*) FROM old").fetchall()[0][0]
        kept = engine.sql(kept_sql).to_arrow_table()
    return Cut(old_rows, _as_columns_of(handle, kept))


def drop_old(handle: DeltaTable, table: Table, cutoff_ms: int, subjects: DeltaTable | None) -> Cut:
    """Replace the rows older than the cutoff by those of them that stay, in one commit; none where nothing goes.

    Rows that are appended meanwhile are not lost: old ones among them make the commit fail, and it is made anew.
    Raises CommitFailedError when that goes on.
    """
    for attempt in range(1, MOST_ATTEMPTS + 1):
        cut = find_old(handle, table, cutoff_ms, subjects)
        if not cut.dropped:
            return cut
        try:
            write_deltalake(
                handle,
                cut.kept,
                mode="overwrite",
                predicate=f"{table.time} < '{_iso(cutoff_ms)}Z'",
                commit_properties=CommitProperties(custom_metadata={"balancewatch": "retention"}),
            )
            return cut
        except DeltaError as error:
            if attempt == MOST_ATTEMPTS or not (isinstance(error, CommitFailedError) or is_gap(error)):
                raise
            catch_up(handle)
    raise AssertionError("unreachable")


def _old_files(handle: DeltaTable, table: Table, cutoff_ms: int) -> list[str]:
    """Those that may hold rows older than the cutoff."""
    adds = handle.get_add_actions(flatten=True)
    known = f"min.{table.time}" in adds.schema.names
    oldest = adds[f"min.{table.time}"].to_pylist() if known else [None] * adds.num_rows
    cutoff = to_time(cutoff_ms)
    old = {path for path, at in zip(adds["path"].to_pylist(), oldest, strict=True) if at is None or at < cutoff}
    return files_here(handle, [uri for uri in handle.file_uris() if uri.rpartition("/")[2] in old])


def _as_columns_of(handle: DeltaTable, rows: pa.Table) -> pa.Table:
    """With every column of the table: null where none of the files has it."""
    schema = pa.schema(handle.schema().to_arrow())
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field.name, pa.nulls(rows.num_rows, field.type))
    return rows.select(schema.names)


def _kept_subjects(subject: Subject, gone_ms: int) -> str:
    columns = _named(subject.columns)
    return f"SELECT {columns} FROM rows_of_subjects GROUP BY {columns} HAVING NOT ({subject.gone(_moment(gone_ms))})"


def _named(columns: tuple[str, ...]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def _moment(at_ms: int) -> str:
    return f"TIMESTAMPTZ '{_iso(at_ms)}+00:00'"


def _iso(at_ms: int) -> str:
    return to_time(at_ms).strftime("%Y-%m-%dT%H:%M:%S.%f")
