"""How far the relay has read, from checkpoints as Spark writes them, and what vacuum leaves for it."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from conf.settings import Settings
from schemas.tables import ALERTS
from streaming.maintenance.files import compact
from streaming.maintenance.readers import RELAY, Reader, ReaderError, read_reader
from streaming.maintenance.upkeep import Plan, maintain
from streaming.oncall.alert_stream import NAME
from streaming.queries.delta_log import read_commit
from streaming.queries.warehouse import table_path
from tests.maintenance.rows import NOW_MS, row_of, write

HOUR_MS = 3_600_000


@pytest.fixture
def alerts(tmp_path: Path) -> Path:
    """Version 0 makes the table, 1 to 5 append a row each."""
    for number in range(5):
        write(tmp_path, ALERTS, [row_of(ALERTS, NOW_MS, incident_id=f"i{number}")])
    return tmp_path


def handle_of(warehouse: Path) -> DeltaTable:
    return DeltaTable(table_path(warehouse, "alerts"))


def checkpoint(warehouse: Path, *versions: int, done: int | None = None, table_id: str = "") -> Path:
    """Batches that end before these versions; all but the newest are done, or as many as `done` says."""
    folder = warehouse / "checkpoints" / RELAY
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for batch_id, version in enumerate(versions):
        position = {
            "sourceVersion": 1,
            "reservoirId": table_id or str(handle_of(warehouse).metadata().id),
            "reservoirVersion": version,
            "index": -1,
            "isStartingVersion": False,
        }
        lines = ["v1", json.dumps({"batchWatermarkMs": 0}), json.dumps(position)]
        (folder / "offsets" / str(batch_id)).write_text("\n".join(lines))
        if batch_id < (len(versions) if done is None else done):
            (folder / "commits" / str(batch_id)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return folder


def clean_log(warehouse: Path) -> None:
    """As Delta does with commits older than 30 days before a checkpoint."""
    handle = handle_of(warehouse)
    handle.create_checkpoint()
    for version in range(int(handle.version())):
        (Path(table_path(warehouse, "alerts")) / "_delta_log" / f"{version:020}.json").unlink()


def reader_of(warehouse: Path, folder: Path) -> Reader | None:
    return read_reader(folder, table_path(warehouse, "alerts"), handle_of(warehouse))


def written_ms(warehouse: Path, version: int) -> int:
    commit = read_commit(table_path(warehouse, "alerts"), version)
    assert commit is not None
    return commit.at_ms


def test_the_checkpoint_is_the_one_that_the_relays_stream_writes() -> None:
    assert RELAY == NAME


def test_a_reader_is_as_far_as_its_newest_batch_that_is_done(alerts: Path) -> None:
    assert reader_of(alerts, checkpoint(alerts, 2, 4, done=1)) == Reader(2, written_ms(alerts, 2))
    assert reader_of(alerts, checkpoint(alerts, 2, 4)) == Reader(4, written_ms(alerts, 4))


def test_a_reader_that_has_read_all_needs_nothing_and_compaction_is_nothing_new_to_it(alerts: Path) -> None:
    folder = checkpoint(alerts, 6)
    assert reader_of(alerts, folder) == Reader(6, None)
    compact(handle_of(alerts), 100)
    assert reader_of(alerts, folder) == Reader(6, None)
    write(alerts, ALERTS, [row_of(ALERTS, NOW_MS, incident_id="new")])
    assert reader_of(alerts, folder) == Reader(6, written_ms(alerts, 7))


def test_before_a_first_batch_is_done_everything_is_unread(alerts: Path) -> None:
    assert reader_of(alerts, checkpoint(alerts, 4, done=0)) == Reader(0, written_ms(alerts, 1))


def test_no_checkpoint_or_one_of_another_table_is_no_reader(alerts: Path) -> None:
    assert reader_of(alerts, alerts / "checkpoints" / RELAY) is None
    assert reader_of(alerts, checkpoint(alerts, 2, table_id="another")) is None


def test_a_reader_that_the_log_has_left_behind_is_told_with_its_checkpoint(alerts: Path) -> None:
    folder = checkpoint(alerts, 2)
    clean_log(alerts)
    with pytest.raises(ReaderError, match=r"relay has read up to version 2, .* move that folder away"):
        reader_of(alerts, folder)


@pytest.mark.parametrize(("unread_hours", "kept_hours"), [(1, 168), (166, 168), (200, 201), (2_000, 2_001)])
def test_vacuum_leaves_what_came_since_the_relay_was_away(alerts: Path, unread_hours: int, kept_hours: int) -> None:
    """An hour more, for a file is replaced a moment before its commit is written."""
    checkpoint(alerts, 3)
    settings = Settings.load(paths={"warehouse": alerts, "checkpoints": alerts / "checkpoints"})
    now_ms = written_ms(alerts, 3) + unread_hours * HOUR_MS
    report = next(iter(maintain(settings, Plan(("alerts",)), now_ms)))
    assert report.vacuum_hours == kept_hours
    assert ("the relay has yet to read version 3" in report.note) == (kept_hours > 168)


def test_a_relay_that_cannot_go_on_stops_the_vacuum_and_nothing_else(alerts: Path) -> None:
    checkpoint(alerts, 2)
    clean_log(alerts)
    settings = Settings.load(
        paths={"warehouse": alerts, "checkpoints": alerts / "checkpoints"}, maintain={"min_files": 2}
    )
    report = next(iter(maintain(settings, Plan(("alerts",)), NOW_MS)))
    assert "its stream cannot go on" in report.failed
    assert (report.files_compacted, report.files_deleted) == (5, 0)
