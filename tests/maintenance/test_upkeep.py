"""Upkeep of real Delta tables: rows, current state and exactly-once survive it, also while others write."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from typer.testing import CliRunner

from conf.settings import Settings
from schemas.tables import ALERTS, ASSIGNMENTS, QUARANTINE, TABLES
from streaming.cli import app
from streaming.maintenance import upkeep as upkeep_module
from streaming.maintenance.files import CHECKPOINT_AFTER
from streaming.maintenance.upkeep import Plan, Report, maintain
from streaming.warehouse.tables import open_table, table_path
from streaming.warehouse.warehouse_error import NotWrittenError
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.maintenance.rows import DAY_MS, NOW_MS, read, row_of, write
from tests.maintenance.test_retention import incident
from tests.support.row_writer import RowWriter


def settings_of(root: Path, **maintain: Any) -> Settings:
    return Settings.load(paths={"warehouse": root, "checkpoints": root / "cp"}, maintain={"min_files": 4, **maintain})


def work(root: Path, *tables: str, now_ms: int = NOW_MS, dry_run: bool = False, **maintains: Any) -> dict[str, Report]:
    plan = Plan(tables, dry_run=dry_run) if tables else Plan(dry_run=dry_run)
    reports = {report.table: report for report in maintain(settings_of(root, **maintains), plan, now_ms)}
    assert not [report.failed for report in reports.values() if report.failed]
    return reports


def comparable(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


def files_of(root: Path) -> dict[str, tuple[int, int]]:
    paths = [path for path in root.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}


def age(root: Path, name: str, hours: float) -> None:
    """As if all that is in the table's folder and log had been written so many hours earlier."""
    for path in (root / name).rglob("*"):
        at = path.stat().st_mtime - hours * 3600
        os.utime(path, (at, at))


def part(digit: str) -> str:
    """A name as Delta's writers give them."""
    return f"part-00000-{'-'.join(digit * length for length in (8, 4, 4, 4, 12))}-c000.snappy.parquet"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten batches of two assignments each, one of them 200 days old, and an incident that was over long ago."""
    root = tmp_path_factory.mktemp("grown")
    writer = DeltalakeWriter(root)
    for batch_id in range(10):
        at_ms = NOW_MS - 200 * DAY_MS if batch_id < 2 else NOW_MS - DAY_MS + batch_id
        rows = [
            {"verdict": "OK", "since": at_ms, "changed_at": at_ms, **row}
            for row in ({"queue_id": 1}, {"queue_id": 2 + batch_id})
        ]
        key = {"cluster": "c", "consumer_group": "g", "topic": "t", "broker_name": "b"}
        append_rows(writer, {"assignments": [key | row for row in rows]}, "query-1", batch_id)
    incident(root, "over", ("FIRING", NOW_MS - 500 * DAY_MS), ("RESOLVED", NOW_MS - 499 * DAY_MS))
    return root


@pytest.fixture
def warehouse(filled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(filled, tmp_path, dirs_exist_ok=True)


def test_small_files_become_one_with_the_same_rows_and_the_batch_that_is_run_again_stays_known(warehouse: Path) -> None:
    """And the version before can still be read."""
    before = comparable(read(warehouse, "assignments"))
    handle, stale = DeltaTable(table_path(warehouse, "assignments")), DeltalakeWriter(warehouse)
    rows = comparable(handle.to_pyarrow_table().to_pylist())
    report = work(warehouse, "assignments", retention_days={"assignments": 0})["assignments"]
    assert (report.files, report.files_compacted, report.files_made, report.rows) == (10, 10, 1, 20)
    assert comparable(read(warehouse, "assignments")) == before
    for writer in (stale, DeltalakeWriter(warehouse)):
        append_rows(writer, {"assignments": [row_of(ASSIGNMENTS, NOW_MS)]}, "query-1", 9)
    assert comparable(read(warehouse, "assignments")) == before
    earlier = DeltaTable(handle.table_uri, version=handle.version())
    assert comparable(earlier.to_pyarrow_table().to_pylist()) == rows


def test_transactions_outlive_the_log_they_stand_in(warehouse: Path) -> None:
    """A checkpoint is made, the commits before it are deleted later, and the batch is known all the same."""
    for number in range(CHECKPOINT_AFTER):
        write(warehouse, ASSIGNMENTS, [row_of(ASSIGNMENTS, NOW_MS + number, queue_id=99)], 100 + number)
    rows = comparable(read(warehouse, "assignments"))
    for days in (0, 8):
        age(warehouse, "assignments", 24 * days)
        report = work(warehouse, "assignments", retention_days={"assignments": 0})["assignments"]
    assert report.log_files_deleted >= 10 + CHECKPOINT_AFTER
    assert not (warehouse / "assignments" / "_delta_log" / f"{5:020}.json").exists()
    handle = open_table(warehouse, ASSIGNMENTS)
    assert handle.transaction_version("query-1") == 9
    append_rows(DeltalakeWriter(warehouse), {"assignments": [row_of(ASSIGNMENTS, NOW_MS)]}, "query-1", 9)
    assert comparable(read(warehouse, "assignments")) == rows
    assert (handle.protocol().min_reader_version, handle.protocol().min_writer_version) == (1, 2)


def test_a_dry_run_says_what_the_real_one_does_and_a_second_one_finds_nothing_to_do(warehouse: Path) -> None:
    files = files_of(warehouse)
    dry = work(warehouse, dry_run=True)
    assert files_of(warehouse) == files
    done = work(warehouse)
    for name, report in dry.items():
        reported, was = asdict(report), asdict(done[name])
        assert reported.pop("dry_run")
        assert not was.pop("dry_run")
        for rough in ("files_compacted", "files_made"):  # retention makes files of its own
            reported.pop(rough), was.pop(rough)
        assert reported == was
    assert dry["assignments"].rows_dropped == 1
    assert (dry["alerts"].rows_dropped, dry["alert_deliveries"].rows_dropped) == (2, 1)
    files = files_of(warehouse)
    again = work(warehouse)
    assert files_of(warehouse) == files
    assert all(report.rows_dropped == report.files_compacted == report.files_deleted == 0 for report in again.values())


def test_a_file_stays_as_long_as_a_reader_may_follow_the_log_that_names_it(tmp_path: Path) -> None:
    """It was written hours ago, as the log's first commits were; later these are more than readers may lag."""
    path = Path(table_path(tmp_path, "assignments"))
    write(tmp_path, ASSIGNMENTS, [row_of(ASSIGNMENTS, NOW_MS)])
    (path / part("c")).write_bytes(b"x")
    age(tmp_path, "assignments", 10.5)
    reports = []
    for start in (0, 2_000):
        writer = DeltalakeWriter(tmp_path)
        for number in range(1_001):
            append_rows(writer, {"assignments": [row_of(ASSIGNMENTS, NOW_MS)]}, "query-1", start + number)
        reports += work(tmp_path, "assignments", reader_commits=1_000).values()
    assert [(report.vacuum_hours, report.files_deleted) for report in reports] == [(12, 0), (2, 1)]
    assert not (path / part("c")).exists()


@pytest.mark.parametrize("is_missing", [True, False], ids=["missing", "damaged"])
def test_a_file_that_cannot_be_read_fails_its_table_in_a_sentence_and_the_other_tables_go_on(
    warehouse: Path, *, is_missing: bool
) -> None:
    handle = DeltaTable(table_path(warehouse, "alerts"))
    file = Path(handle.file_uris()[0])
    if is_missing:
        file.unlink()
    else:
        file.write_bytes(b"PAR1 no more PAR1")
    reports = {one.table: one for one in maintain(settings_of(warehouse), Plan(), NOW_MS)}
    assert file.name in reports["alerts"].failed
    assert "\n" not in reports["alerts"].failed
    assert not reports["assignments"].failed
    assert (reports["assignments"].rows_dropped, reports["assignments"].files_made) == (1, 1)
    assert DeltaTable(table_path(warehouse, "alerts")).version() == handle.version()


def test_a_warehouse_without_tables_is_refused_with_its_setting(tmp_path: Path) -> None:
    with pytest.raises(NotWrittenError, match=r"paths.warehouse = '.*': no tables found"):
        work(tmp_path)
    with pytest.raises(NotWrittenError, match="no table quarantine found"):
        work(tmp_path, QUARANTINE.name)


BATCHES_A_ROUND = 20


class BusyWriter(threading.Thread):
    """A writer as a query is: each batch is written twice, every fifth with a row that retention looks at.

    It writes the batches that it is given leave for, so that a slow machine has as many as a quick one.
    """

    def __init__(self, root: Path, app_id: str, stop: threading.Event) -> None:
        super().__init__(name=app_id)
        self._root, self._stop_writing = root, stop
        self.leave = threading.Semaphore(0)
        self.failed: BaseException | None = None
        self.written: list[str] = []

    def run(self) -> None:
        try:
            writer = DeltalakeWriter(self._root)
            for batch_id in itertools.count():
                while not (self._stop_writing.is_set() or self.leave.acquire(timeout=0.1)):
                    pass
                if self._stop_writing.is_set():
                    return
                names = {0: f"{self.name}-{batch_id}"} | (
                    {300: f"{self.name}-{batch_id}-old"} if batch_id % 5 == 0 else {}
                )
                rows = [row_of(ALERTS, NOW_MS - days * DAY_MS, incident_id=name) for days, name in names.items()]
                for _ in range(2):
                    append_rows(writer, {"alerts": rows}, self.name, batch_id)
                self.written += names.values()
                self._stop_writing.wait(0.04)
        except BaseException as error:
            self.failed = error


def test_no_row_is_lost_or_twice_and_no_writer_fails_while_it_works(tmp_path: Path) -> None:
    """Two writers append many times a second while all is done again and again, each time with something to drop.

    Old rows that come meanwhile may make retention give up for this time, which the next run makes good.
    """
    stop, rounds = threading.Event(), 0
    writers = [BusyWriter(tmp_path, name, stop) for name in ("one", "two")]
    write(tmp_path, ALERTS, [row_of(ALERTS, NOW_MS, incident_id="first")])
    for writer in writers:
        writer.start()
    settings, reports = settings_of(tmp_path, retention_days={"alerts": 200}), list[Report]()
    while rounds < 4 or (rounds < 40 and not any(report.files_compacted for report in reports)):
        for writer in writers:
            writer.leave.release(BATCHES_A_ROUND)
        write(tmp_path, ALERTS, [row_of(ALERTS, NOW_MS - 300 * DAY_MS, incident_id=f"x-{rounds}", state="RESOLVED")])
        reports += maintain(settings, Plan(("alerts",)), NOW_MS)
        rounds += 1
    stop.set()
    for writer in writers:
        writer.join(60)
    assert [writer.failed for writer in writers] == [None, None]
    assert [report.failed for report in reports if report.failed and "concurrent" not in report.failed] == []
    assert any(report.files_compacted for report in reports)
    reports += maintain(settings, Plan(("alerts",)), NOW_MS)
    expected = ["first", *writers[0].written, *writers[1].written]
    assert sorted(row["incident_id"] for row in read(tmp_path, "alerts")) == sorted(expected)
    assert sum(report.rows_dropped for report in reports) == rounds


@pytest.mark.parametrize("crashes_at", ["drop_old", "SmallFiles", "delete_unused", "shorten_log"])
def test_a_crash_between_two_steps_leaves_tables_that_the_next_run_brings_to_the_same(
    warehouse: Path, crashes_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (warehouse / "assignments" / part("c")).write_bytes(b"x")
    os.utime(warehouse / "assignments" / part("c"), (0, 0))

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(upkeep_module, crashes_at, crash)
        with pytest.raises(KeyboardInterrupt):
            work(warehouse, "assignments")
    assert {row["queue_id"] for row in read(warehouse, "assignments")} == set(range(1, 12))
    work(warehouse, "assignments")
    assert len(read(warehouse, "assignments")) == 19
    assert len(DeltaTable(table_path(warehouse, "assignments")).file_uris()) == 1


@pytest.fixture
def young(tmp_path: Path) -> Path:
    write(tmp_path, ASSIGNMENTS, [row_of(ASSIGNMENTS, NOW_MS)])
    return tmp_path


def test_what_delta_did_not_write_stays_however_old(young: Path) -> None:
    table = young / "assignments"
    own = ["notes.txt", "part-old.parquet", "mine.parquet", "sub/mine.parquet", f"sub/{part('d')}", ".hidden/a.parquet"]
    left = [part("e"), part("f").replace("-c000.snappy", ".c000.zstd"), f"deletion_vector_{part('1')[11:47]}.bin"]
    for name in (*own, *left):
        (table / name).parent.mkdir(exist_ok=True)
        (table / name).write_bytes(b"x")
        os.utime(table / name, (0, 0))
    dry = work(young, "assignments", dry_run=True)["assignments"]
    done = work(young, "assignments")["assignments"]
    assert (done.files_deleted, done.bytes_deleted) == (dry.files_deleted, dry.bytes_deleted) == (len(left),) * 2
    assert [name for name in own if not (table / name).is_file()] == []
    assert [name for name in left if (table / name).exists()] == []


KILLED_BEFORE_THE_COMMIT_HAS_ITS_NAME = """
import os, signal, sys
from streaming.warehouse.table_store import create_file
os.link = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
create_file(sys.argv[1], "_delta_log/00000000000000000002.json", b"{}")
"""


def test_files_that_a_killed_writer_had_begun_go_after_the_retention(young: Path) -> None:
    """Those of our own appends, and the names that delta-rs writes under."""
    table = young / "assignments"
    command = [sys.executable, "-c", KILLED_BEFORE_THE_COMMIT_HAS_ITS_NAME, str(table)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    in_log = (f"{7:020}.checkpoint.parquet#2", f"_commit_{part('b')[11:47]}.json.tmp", "_last_checkpoint#1")
    begun = [*(table / "_delta_log").glob(".*.tmp"), table / f"{part('a')}#1", table / part("c")]
    begun += [table / "_delta_log" / name for name in in_log]
    others = [table / "part-old#1", table / "_delta_log" / ".mine.tmp", table / "_delta_log" / "mine.json.tmp"]
    for path in (*begun[1:], *others):
        path.write_bytes(b"x")
    assert work(young, "assignments")["assignments"].files_deleted == 0, "a writer may be at work"
    for path in (*begun, *others):
        os.utime(path, (0, 0))
    dry = work(young, "assignments", dry_run=True)["assignments"]
    assert work(young, "assignments")["assignments"].files_deleted == dry.files_deleted == len(begun) == 6
    assert [path.name for path in begun if path.exists()] == []
    assert [path.name for path in others if not path.exists()] == []
    assert len(read(young, "assignments")) == 1


@pytest.fixture
def five_files(tmp_path: Path) -> Path:
    """All tables; alerts and assignments of five files each."""
    RowWriter(tmp_path)
    for number in range(5):
        write(tmp_path, ALERTS, [row_of(ALERTS, NOW_MS, incident_id=f"i{number}")])
        write(tmp_path, ASSIGNMENTS, [row_of(ASSIGNMENTS, NOW_MS, queue_id=number)])
    return tmp_path


def test_an_empty_commit_hides_rows_so_nothing_is_done_to_its_table_nor_to_rows_about_it(five_files: Path) -> None:
    log = Path(table_path(five_files, "alerts")) / "_delta_log"
    (log / f"{5:020}.json").write_text("")
    assert DeltaTable(table_path(five_files, "alerts")).version() == 5, "Delta itself opens it without the rows"
    age(five_files, "alerts", 24 * 31)
    files = sorted(path.name for path in log.parent.glob("*.parquet"))
    reports = {report.table: report for report in maintain(settings_of(five_files), Plan(), NOW_MS + 60 * DAY_MS)}
    failed = {name for name, report in reports.items() if report.failed}
    assert failed == {"alerts", "alert_deliveries", "acknowledgements"}
    assert all(f"{5:020}.json is empty" in reports[name].failed for name in failed)
    assert sorted(path.name for path in log.parent.glob("*.parquet")) == files
    assert reports["assignments"].files_compacted == 5


class Panic(BaseException):
    """A panic of Rust, which pyo3 raises as a BaseException."""


@pytest.mark.parametrize(
    "error",
    [
        IndexError("x"),
        RuntimeError(),
        Panic("index out of range"),
        CommitFailedError("a concurrent transaction.\nHelp: rerun"),
    ],
)
def test_whatever_one_table_meets_the_later_ones_are_maintained_and_the_exit_code_reports(
    five_files: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    take_stock = upkeep_module.take_stock
    monkeypatch.setattr(
        upkeep_module, "take_stock", lambda handle: fail() if "/alerts" in handle.table_uri else take_stock(handle)
    )
    ended = CliRunner().invoke(app, ["maintain", "--warehouse", str(five_files), "--format", "json"])
    assert ended.exit_code == 1
    reports = {row["table"]: row for row in json.loads(ended.stdout)}
    assert len(reports) == len(TABLES)
    assert [name for name, row in reports.items() if row["failed"]] == ["alerts"]
    assert ended.stderr == f"error: alerts: {str(error).partition(chr(10))[0] or type(error).__name__}\n"
