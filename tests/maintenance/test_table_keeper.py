"""`run` keeps its tables small beside the batches: few files, a short log, the same rows, and no reader disturbed."""

import json
import os
import shutil
import threading
import time
from pathlib import Path

import pytest
import structlog
from deltalake import DeltaTable

from conf.settings import Settings
from schemas.tables import ALERTS, TABLES
from streaming.maintenance import table_keeper as module
from streaming.maintenance.files import MB, take_stock
from streaming.maintenance.small_files import SmallFiles
from streaming.maintenance.table_keeper import TableKeeper, due_tier
from streaming.relay.tables import RelayTables
from streaming.warehouse.tables import table_path
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.maintenance.rows import NOW_MS, read, row_of


def keeper(root: Path) -> TableKeeper:
    return TableKeeper(Settings.load(paths={"warehouse": root, "checkpoints": root / "cp"}))


def append(writer: DeltalakeWriter, batch_id: int) -> None:
    row = row_of(ALERTS, NOW_MS + batch_id, incident_id=f"{batch_id:05}", summary="ß" * 50)
    append_rows(writer, {"alerts": [row]}, "query", batch_id)


@pytest.mark.parametrize(
    ("sizes", "due"),
    [
        ([], None),
        ([MB // 2] * 63, None),
        ([MB // 2] * 64, MB),
        ([MB // 2] * 63 + [2 * MB] * 15, None),
        ([MB // 2] * 63 + [2 * MB] * 16, 16 * MB),
        ([MB // 2] * 64 + [2 * MB] * 16, 16 * MB),
        ([20 * MB] * 500, None),
    ],
)
def test_a_tier_is_due_when_it_is_full(sizes: list[int], due: int | None) -> None:
    assert due_tier(sizes) == due


@pytest.fixture
def _small_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a hundred batches be what thousands are."""
    monkeypatch.setattr(module, "TIERS", ((MB, 16), (16 * MB, 4)))
    monkeypatch.setattr(module, "CHECKPOINT_COMMITS", 20)


def checkpointed(path: Path) -> int:
    try:
        return int(json.loads((path / "_delta_log" / "_last_checkpoint").read_text())["version"])
    except FileNotFoundError:
        return -1


def commit_versions(path: Path) -> list[int]:
    return sorted(int(file.stem) for file in (path / "_delta_log").glob("*.json"))


@pytest.mark.usefixtures("_small_tiers")
def test_a_table_has_few_files_a_short_log_and_each_row_once_also_for_a_reader_of_its_log(tmp_path: Path) -> None:
    """The log reaches back as far as a reader may be behind, and each version since can be read."""
    writer, kept, path = DeltalakeWriter(tmp_path), keeper(tmp_path), Path(table_path(tmp_path, "alerts"))
    follower, seen, most, since = RelayTables(tmp_path), list[str](), 0, 0
    follower.read_history([], 0, 0)
    for batch_id in range(100):
        append(writer, batch_id)
        if batch_id % 10 == 9:
            kept.keep()
            handle = DeltaTable(path)
            most = max(most, len(take_stock(handle)[1]))
            since = max(since, int(handle.version()) - checkpointed(path))
        if batch_id % 11 == 0:
            seen.extend(row.incident_id for row in follower.read_new_alerts())
    seen.extend(row.incident_id for row in follower.read_new_alerts())
    expected = [f"{batch_id:05}" for batch_id in range(100)]
    assert seen == expected
    assert most < 16 + 30
    assert since < 20 + 40
    assert commit_versions(path) == list(range(len(commit_versions(path)))), "none is too old"
    (path / "_delta_log" / "_last_checkpoint").write_text("")  # as after a power cut
    newest = commit_versions(path)[-1]
    old = [version for version in commit_versions(path) if version <= newest - 35]
    for version in old:
        os.utime(path / "_delta_log" / f"{version:020}.json", (0, 0))
    keeper(tmp_path).keep()
    left = commit_versions(path)
    assert len(left) < newest
    assert left == list(range(left[0], newest + 1))
    assert left[0] <= old[-1], "the version that held when the time began is among them"
    for version in range(old[-1], newest + 1):
        assert DeltaTable(path, version=version).version() == version
    append_rows(DeltalakeWriter(tmp_path), {"alerts": [row_of(ALERTS, NOW_MS)]}, "query", 99)  # is known
    assert sorted(row["incident_id"] for row in read(tmp_path, "alerts")) == expected


def test_a_table_is_opened_each_hour_else_its_new_commits_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where all that it had read has expired since: the log has begun anew."""
    opened, now = list[str](), [0.0]
    look = SmallFiles._look
    monkeypatch.setattr(
        SmallFiles, "_look", lambda files, handle: (opened.append(Path(files._path).name), look(files, handle))
    )
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    writer, kept, path = DeltalakeWriter(tmp_path), keeper(tmp_path), Path(table_path(tmp_path, "alerts"))
    for batch_id in range(30):
        append(writer, batch_id)
        kept.keep()
    assert opened == list(TABLES)
    for batch_id in range(30, 200):
        append(writer, batch_id)
    DeltaTable(path).create_checkpoint()
    for version in range(100):
        (path / "_delta_log" / f"{version:020}.json").unlink()
    kept.keep()
    assert len(take_stock(DeltaTable(path))[1]) == 200
    now[0] = module.OPEN_SECONDS
    kept.keep()
    assert len(take_stock(DeltaTable(path))[1]) == 2
    assert sorted(row["incident_id"] for row in read(tmp_path, "alerts")) == [f"{number:05}" for number in range(200)]


@pytest.mark.usefixtures("_small_tiers")
def test_a_log_has_no_more_commits_than_readers_may_lag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However young they are, else each opening of a busy table lists a million names."""
    monkeypatch.setattr(module, "ACTIONS_A_COMMIT", 1_000_000)
    writer, path = DeltalakeWriter(tmp_path), Path(table_path(tmp_path, "alerts"))
    kept = TableKeeper(
        Settings.load(paths={"warehouse": tmp_path, "checkpoints": tmp_path}, maintain={"reader_commits": 1_000})
    )
    for batch_id in range(1_500):
        append(writer, batch_id)
        if batch_id % 16 == 15:
            kept.keep()
    versions = commit_versions(path)
    assert versions == list(range(versions[0], versions[-1] + 1))
    assert 1_000 <= len(versions) < 1_200
    assert DeltaTable(path, version=versions[-1] - 1_000).version() == versions[-1] - 1_000


@pytest.mark.usefixtures("_small_tiers")
def test_all_that_is_made_is_synced_and_no_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each compaction costs as much as the table has files, and a power cut can take what it made."""
    writer, path = DeltalakeWriter(tmp_path), Path(table_path(tmp_path, "alerts"))
    for batch_id in range(30):
        append(writer, batch_id)
    older, synced = {one for one in path.rglob("*") if one.is_file()}, set[int]()
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.add(os.fstat(file).st_ino), sync(file)))
    keeper(tmp_path).keep()
    made = {one for one in path.rglob("*") if one.is_file()} - older
    assert {one.suffix for one in made} == {".parquet", ".json", ""}, "data, checkpoint, commit, hint"
    assert synced == {one.stat().st_ino for one in (*made, path, path / "_delta_log")}


@pytest.mark.usefixtures("_small_tiers")
def test_a_table_that_cannot_be_kept_is_reported_once_and_the_others_are_kept(tmp_path: Path) -> None:
    writer, kept = DeltalakeWriter(tmp_path), keeper(tmp_path)
    for batch_id in range(20):
        append(writer, batch_id)
    shutil.rmtree(tmp_path / "assignments")
    commit = tmp_path / "quality" / "_delta_log" / f"{0:020}.json"
    commit.write_text("no json")
    with structlog.testing.capture_logs() as logs:
        kept.keep()
        kept.keep()
    assert [entry["table"] for entry in logs] == ["quality"]
    assert len(take_stock(DeltaTable(table_path(tmp_path, "alerts")))[1]) == 1


def test_a_stop_waits_for_one_table_of_a_store_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the middle of a round."""
    kept, waited, is_asked = keeper(tmp_path), [0.0], threading.Event()

    def wait_in_vain(_table: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            is_asked.set()
            assert kept._stop.wait(60)
        waited[0] += 120

    monkeypatch.setattr(module._KeptTable, "keep", wait_in_vain)
    monkeypatch.setattr(time, "monotonic", lambda: waited[0])
    kept._every_seconds = 0
    kept.start()
    assert is_asked.wait(60)
    kept.stop()
    assert waited == [240]
