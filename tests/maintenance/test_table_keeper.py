"""`run` keeps its tables small beside the batches: few files, a short log, the same rows, and no reader disturbed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import structlog
from deltalake import DeltaTable

from conf.settings import Settings
from schemas.tables import ALERTS
from streaming.maintenance import table_keeper as module
from streaming.maintenance.files import MB, file_sizes
from streaming.maintenance.table_keeper import CHECKPOINT_COMMITS, TableKeeper, due_tier
from streaming.oncall.alert_feed import NewFiles
from streaming.queries.warehouse import DeltalakeWriter, append_rows, table_path
from tests.maintenance.rows import NOW_MS, read, row_of

MOST_FILES = 200


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


def test_a_table_never_has_many_files_nor_a_long_way_to_its_last_checkpoint(tmp_path: Path) -> None:
    writer, kept, path = DeltalakeWriter(tmp_path), keeper(tmp_path), Path(table_path(tmp_path, "alerts"))
    most, since = 0, 0
    for batch_id in range(400):
        append(writer, batch_id)
        if batch_id % 10 == 9:
            kept.keep()
            handle = DeltaTable(path)
            most = max(most, len(file_sizes(handle)))
            since = max(since, int(handle.version()) - checkpointed(path))
    assert most < MOST_FILES / 2
    assert since < CHECKPOINT_COMMITS + 40
    assert [row["incident_id"] for row in sorted(read(tmp_path, "alerts"), key=lambda row: row["incident_id"])] == [
        f"{batch_id:05}" for batch_id in range(400)
    ]
    append_rows(DeltalakeWriter(tmp_path), {"alerts": [row_of(ALERTS, NOW_MS)]}, "query", 399)  # is known
    assert len(read(tmp_path, "alerts")) == 400


def checkpointed(path: Path) -> int:
    try:
        return int(json.loads((path / "_delta_log" / "_last_checkpoint").read_text())["version"])
    except FileNotFoundError:
        return -1


def test_who_follows_the_log_gets_each_row_once(tmp_path: Path) -> None:
    writer, kept = DeltalakeWriter(tmp_path), keeper(tmp_path)
    follower, seen = NewFiles(tmp_path, 0), []
    for batch_id in range(150):
        append(writer, batch_id)
        if batch_id % 7 == 0:
            kept.keep()
        if batch_id % 11 == 0:
            follower.read_to(lambda rows: seen.extend(row.incident_id for row in rows))
    follower.read_to(lambda rows: seen.extend(row.incident_id for row in rows))
    assert seen == [f"{batch_id:05}" for batch_id in range(150)]
    assert len(file_sizes(DeltaTable(table_path(tmp_path, "alerts")))) < 100


def test_a_table_that_did_not_grow_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, kept = DeltalakeWriter(tmp_path), keeper(tmp_path)
    append(writer, 0)
    kept.keep()
    opened: list[str] = []

    class Opened(DeltaTable):
        def __init__(self, path: str, *args: Any) -> None:
            opened.append(Path(path).name)
            super().__init__(path, *args)

    monkeypatch.setattr(module, "DeltaTable", Opened)
    for batch_id in range(1, module.LOOK_COMMITS):
        append(writer, batch_id)
        kept.keep()
    assert opened == []
    append(writer, module.LOOK_COMMITS)
    kept.keep()
    assert opened == ["alerts"]


def test_a_table_that_cannot_be_kept_is_told_once_and_the_others_are_kept(tmp_path: Path) -> None:
    writer, kept = DeltalakeWriter(tmp_path), keeper(tmp_path)
    for batch_id in range(100):
        append(writer, batch_id)
    shutil.rmtree(tmp_path / "assignments")
    commit = tmp_path / "quality" / "_delta_log" / f"{0:020}.json"
    commit.write_text("no json")
    with structlog.testing.capture_logs() as logs:
        kept.keep()
        kept.keep()
    assert [entry["table"] for entry in logs] == ["quality"]
    assert len(file_sizes(DeltaTable(table_path(tmp_path, "alerts")))) < 50
