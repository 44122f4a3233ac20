"""Maintenance, table by table: drop old rows, compact small files, delete unused files, shorten the log.

Each step is at most one Delta commit, so tables stay valid after a crash, and the next run continues. Retention keeps
every row from the cutoff on, and of the older rows the newest of each key that still holds, and all rows of incidents
that were open at the cutoff. Rows about an incident or a message stay as long as their subject, because the relay would
notify an incident without deliveries again.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from conf.settings import Settings
from schemas.tables import ALERTS, PROPERTIES, QUARANTINE, TABLES, TOMBSTONE_HOURS, TOMBSTONES, Table
from streaming.maintenance.files import (
    MB,
    delete_unused,
    find_unfinished,
    find_unused,
    log_files,
    reader_hours,
    refuse_empty_commits,
    shorten_log,
    sync_commits,
    take_stock,
)
from streaming.maintenance.small_files import SmallFiles
from streaming.store.table_files import files_as_rows, time_sql
from streaming.text.times import DAY, to_time
from streaming.warehouse.delta_log import in_one_line
from streaming.warehouse.file_copies import files_here
from streaming.warehouse.table_store import Found, list_files
from streaming.warehouse.tables import catch_up, is_gap, open_delta, table_path
from streaming.warehouse.warehouse_error import NotWrittenError

MEMORY_LIMIT = "1GB"

DELTA_HOURS = 168
"""How long files stay at least in a table whose log remembers removed ones for another time: an older release's."""

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
    """Return SQL for the newest old row of each key, if it still holds."""
    return lambda table: (
        "SELECT * FROM (FROM old QUALIFY row_number() OVER "
        f"(PARTITION BY {_named(table.key)} ORDER BY {table.time} DESC, batch_id DESC) = 1) WHERE {condition}"
    )


@dataclass(frozen=True)
class Subject:
    """The subject of a table's rows, which stay as long as it does: nothing is notified or replayed twice.

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


KEPT: Mapping[str, Callable[[Table], str]] = {
    "alerts": lambda _: (
        "FROM old ANTI JOIN (FROM old WHERE state = 'RESOLVED') USING (incident_id) WHERE incident_id IS NOT NULL"
    ),
    "alert_deliveries": _with_subject,
    "acknowledgements": _with_subject,
    "silences": _newest("ends_at >= cutoff()"),
    "assignments": _newest("true"),
    "memberships": _newest("change IN ('JOINED', 'CHANGED')"),
    "backlogs": _newest("messages >= 1000"),
    "fault_items": _newest("NOT available"),
    "broker_health": _newest("true"),
    "quarantine": lambda _: "FROM old WHERE false",
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
        engine.execute(f"CREATE MACRO cutoff() AS {time_sql(cutoff_ms)}")
        engine.execute(f"CREATE VIEW old AS SELECT * FROM {files_as_rows(files)} WHERE {table.time} < cutoff()")
        kept_sql = KEPT[table.name](table)
        if subjects is not None and (of_subjects := files_here(subjects, subjects.file_uris())):
            engine.execute(f"CREATE VIEW rows_of_subjects AS SELECT * FROM {files_as_rows(of_subjects)}")
            subject = SUBJECTS[table.name]
            columns, gone = _named(subject.columns), subject.gone(time_sql(gone_ms))
            engine.execute(
                f"CREATE VIEW kept_subjects AS SELECT {columns} FROM rows_of_subjects GROUP BY {columns} "
                f"HAVING NOT ({gone})"
            )
        elif subjects is not None:
            kept_sql = "FROM old WHERE false"
        old_rows = engine.execute("SELECT count(*) FROM old").fetchall()[0][0]
        kept = engine.sql(kept_sql).to_arrow_table()
    schema = pa.schema(handle.schema().to_arrow())
    for field in schema:
        if field.name not in kept.column_names:  # none of the files has it
            kept = kept.append_column(field.name, pa.nulls(kept.num_rows, field.type))
    return Cut(old_rows, kept.select(schema.names))


def drop_old(handle: DeltaTable, table: Table, cutoff_ms: int, subjects: DeltaTable | None) -> Cut:
    """Replace the rows older than the cutoff by those of them that stay, in one commit; none where nothing goes.

    Rows that are appended meanwhile are not lost: old ones among them make the commit fail, and it is made anew.
    Raises CommitFailedError after MOST_ATTEMPTS.
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
                predicate=f"{table.time} < '{to_time(cutoff_ms):%Y-%m-%dT%H:%M:%S.%f}Z'",
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


def _named(columns: tuple[str, ...]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


@dataclass(frozen=True)
class Plan:
    """Tables of a run, and whether it drops rows; `dry_run` only reports."""

    tables: tuple[str, ...] = tuple(TABLES)
    does_retention: bool = True
    dry_run: bool = False


@dataclass
class Report:
    """What was done to one table, or with `dry_run` would be. Rows, files and bytes are as they were before."""

    table: str
    dry_run: bool
    rows: int = 0
    files: int = 0
    bytes: int = 0
    retention_days: int = 0
    rows_dropped: int = 0
    files_compacted: int = 0
    files_made: int = 0
    files_deleted: int = 0
    bytes_deleted: int = 0
    vacuum_hours: int = 0
    log_files_deleted: int = 0
    failed: str = ""


def maintain(
    settings: Settings, plan: Plan, now_ms: int, on_step: Callable[[str], None] = lambda _: None
) -> Iterator[Report]:
    """Yield the report of each existing table. A failure is in its table's report and stops no other table.

    `on_step` is called with table and step as each step begins. Raises NotWrittenError if none of the tables exists.
    """
    warehouse = settings.paths.warehouse
    present = [name for name in plan.tables if _is_there(table_path(warehouse, name))]
    if not present:
        raise NotWrittenError(warehouse, plan.tables[0] if len(plan.tables) == 1 else None)
    for name in sorted(present, key=lambda name: name in SUBJECTS):
        upkeep = _Upkeep(settings, plan, now_ms, TABLES[name], on_step)
        try:
            upkeep.work()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # whatever one table meets, the others go on; a panic of Rust is no Exception
            upkeep.report.failed = in_one_line(error) or type(error).__name__
        yield upkeep.report


def _is_there(path: str) -> bool:
    """Also a table that cannot be read, which its upkeep then says."""
    try:
        return bool(DeltaTable.is_deltatable(path))
    except (DeltaError, OSError):
        return True


class _Upkeep:
    """The upkeep of one table."""

    def __init__(
        self, settings: Settings, plan: Plan, now_ms: int, table: Table, on_step: Callable[[str], None]
    ) -> None:
        self._settings, self._plan, self._now_ms, self._table, self._on_step = settings, plan, now_ms, table, on_step
        self._path = table_path(settings.paths.warehouse, table.name)
        self.report = Report(table.name, plan.dry_run, retention_days=self._days(table))

    def work(self) -> None:
        log = log_files(self._path)
        refuse_empty_commits(self._path, log)
        handle = open_delta(self._path)
        rows, sizes = take_stock(handle)
        report, plan = self.report, self._plan
        report.rows, report.files, report.bytes = rows, len(sizes), sum(sizes)
        if plan.does_retention and report.retention_days:
            self._on_step(f"{self._table.name}: retention")
            self._drop_old(handle)
        self._on_step(f"{self._table.name}: compaction")
        has_changed = report.rows_dropped and not plan.dry_run
        self._compact(handle, take_stock(handle)[1] if has_changed else sizes)
        self._on_step(f"{self._table.name}: vacuum")
        self._vacuum(handle, log)
        wish = self._settings.maintain
        report.log_files_deleted = shorten_log(handle, self._path, log, wish, dry_run=plan.dry_run)

    def _drop_old(self, handle: DeltaTable) -> None:
        cutoff_ms, subject = self._cutoff_ms(self._table), SUBJECTS.get(self._table.name)
        subjects = None
        if subject is not None:
            path = table_path(self._settings.paths.warehouse, subject.table.name)
            if not DeltaTable.is_deltatable(path):
                return
            refuse_empty_commits(path, log_files(path))
            subjects = open_delta(path)
        if self._plan.dry_run:
            # A run that is not dry would have dropped old subjects before it came here.
            goes_first = subject is not None and subject.table.name in self._plan.tables
            gone_ms = self._cutoff_ms(subject.table) if subject is not None and goes_first else 0
            cut = find_old(handle, self._table, cutoff_ms, subjects, gone_ms)
        else:
            before = int(handle.version())
            cut = drop_old(handle, self._table, cutoff_ms, subjects)
            if cut.dropped:
                sync_commits(handle, self._path, before)
        self.report.rows_dropped = cut.dropped

    def _cutoff_ms(self, table: Table) -> int:
        """Return the cutoff; 0 for a table that keeps all rows."""
        days = self._days(table)
        return self._now_ms - days * DAY if days else 0

    def _days(self, table: Table) -> int:
        return self._settings.maintain.retention_days.get(table.name, 0)

    def _compact(self, handle: DeltaTable, sizes: list[int]) -> None:
        wish, report = self._settings.maintain, self.report
        target = wish.target_file_mb * MB
        small = [size for size in sizes if size < target]
        if len(small) < wish.min_files:
            return
        if self._plan.dry_run:  # at most: rows that come together are compressed better
            report.files_compacted, report.files_made = len(small), max(1, math.ceil(sum(small) / target))
            return
        files = SmallFiles(self._path, target, handle)
        for paths in files.bins(target):
            if files.compact(paths):  # else another writer was at work: the next run
                report.files_compacted += len(paths)
                report.files_made += 1
        catch_up(handle)

    def _vacuum(self, handle: DeltaTable, log: list[Found]) -> None:
        """A relay needs no older file: one that starts reads the table as it is, one that runs is seconds behind."""
        is_ours = handle.metadata().configuration.get(TOMBSTONES) == PROPERTIES[TOMBSTONES]
        least = TOMBSTONE_HOURS if is_ours else DELTA_HOURS
        hours = self.report.vacuum_hours = max(least, reader_hours(log, self._settings.maintain))
        unused = [*find_unused(handle, hours), *find_unfinished(self._path, hours)]
        if wanted := set(unused):
            self.report.bytes_deleted = sum(found.size for found in list_files(self._path) if found.path in wanted)
        if unused and not self._plan.dry_run:
            unused = delete_unused(self._path, unused)
        self.report.files_deleted = len(unused)
