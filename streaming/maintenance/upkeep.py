"""All of it, table by table: drop old rows, take small files together, delete unused files, shorten the log.

Each step is one Delta commit or none, so a crash between two leaves tables that are valid and a next run that goes on.
Rows about an incident or a message go after what they are about.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from conf.settings import Settings
from schemas.tables import TABLES, Table
from streaming.maintenance.files import (
    Stock,
    bytes_of,
    compact,
    delete_unused,
    expected_files,
    find_unused,
    take_stock,
)
from streaming.maintenance.log import log_files, refuse_empty_commits, shorten_log
from streaming.maintenance.retention import SUBJECTS, drop_old, find_old
from streaming.system.known_error import BalancewatchError
from streaming.warehouse.delta_log import in_one_line
from streaming.warehouse.opening import open_delta
from streaming.warehouse.table_store import Found
from streaming.warehouse.tables import table_path

DAY_MS = 86_400_000
STEPS = ("retention", "compaction", "vacuum", "log")

OnStep = Callable[[str, str], None]
"""Called with a table's name and one of STEPS, as it begins."""


class MaintainError(BalancewatchError):
    """It cannot be done so. The message names the setting or the flag."""


@dataclass(frozen=True)
class Plan:
    """What is to be done to which tables; with `dry_run` it is only told."""

    tables: tuple[str, ...] = tuple(TABLES)
    does_retention: bool = True
    does_compaction: bool = True
    does_vacuum: bool = True
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
    vacuum_hours: int | None = None
    log_files_deleted: int = 0
    failed: str = ""

    def row(self) -> dict[str, Any]:
        return asdict(self)


def maintain(settings: Settings, plan: Plan, now_ms: int, on_step: OnStep = lambda *_: None) -> Iterator[Report]:
    """A report a table that is there, as it is done. One that fails says so in its report, and the others go on.

    Raises MaintainError when none of the tables is there.
    """
    warehouse = settings.paths.warehouse
    present = [name for name in plan.tables if _is_there(table_path(warehouse, name))]
    if not present:
        which = f"no table {plan.tables[0]}" if len(plan.tables) == 1 else "no tables"
        raise MaintainError(
            f"paths.warehouse = {str(warehouse)!r}: {which} found; has `balancewatch run` written here?"
        )
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
    """One table's."""

    def __init__(self, settings: Settings, plan: Plan, now_ms: int, table: Table, on_step: OnStep) -> None:
        self._settings, self._plan, self._now_ms, self._table, self._on_step = settings, plan, now_ms, table, on_step
        self._path = table_path(settings.paths.warehouse, table.name)
        self._retention_days = self._days(table)
        self._log: list[Found] = []
        self.report = Report(table.name, plan.dry_run, retention_days=self._retention_days)

    def work(self) -> None:
        self._log = log_files(self._path)
        refuse_empty_commits(self._path, self._log)
        handle = open_delta(self._path)
        stock = take_stock(handle)
        self.report.rows, self.report.files, self.report.bytes = stock.rows, stock.files, stock.bytes
        if self._plan.does_retention and self._retention_days:
            self._on_step(self._table.name, STEPS[0])
            self._drop_old(handle)
        if self._plan.does_compaction:
            self._on_step(self._table.name, STEPS[1])
            has_changed = self.report.rows_dropped and not self._plan.dry_run
            self._compact(handle, take_stock(handle) if has_changed else stock)
        if self._plan.does_vacuum:
            self._on_step(self._table.name, STEPS[2])
            self._vacuum(handle)
            self._on_step(self._table.name, STEPS[3])
            self._shorten_log(handle)

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
            cut = drop_old(handle, self._table, cutoff_ms, subjects)
        self.report.rows_dropped = cut.dropped

    def _cutoff_ms(self, table: Table) -> int:
        """0 for a table that keeps its rows for ever."""
        days = self._days(table)
        return self._now_ms - days * DAY_MS if days else 0

    def _days(self, table: Table) -> int:
        return next((days for name, days in self._settings.maintain.retention_days.items() if name == table.name), 0)

    def _compact(self, handle: DeltaTable, stock: Stock) -> None:
        wish = self._settings.maintain
        small = stock.small_files(wish.target_file_mb)
        if len(small) < wish.min_files:
            return
        if self._plan.dry_run:
            taken, made = len(small), expected_files(small, wish.target_file_mb)
        else:
            taken, made = compact(handle, wish.target_file_mb)
        self.report.files_compacted, self.report.files_made = taken, made

    def _vacuum(self, handle: DeltaTable) -> None:
        """A relay needs no older file: one that starts reads the table as it is, one that runs is seconds behind."""
        hours = self.report.vacuum_hours = self._settings.maintain.vacuum_hours
        unused = find_unused(handle, self._path, hours)
        self.report.bytes_deleted = bytes_of(self._path, unused)
        if unused and not self._plan.dry_run:
            unused = delete_unused(self._path, unused)
        self.report.files_deleted = len(unused)

    def _shorten_log(self, handle: DeltaTable) -> None:
        keep_hours = self._settings.maintain.reader_hours
        self.report.log_files_deleted = shorten_log(
            handle, self._path, self._log, keep_hours, dry_run=self._plan.dry_run
        )
