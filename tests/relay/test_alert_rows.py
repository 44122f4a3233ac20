"""New rows of the alerts table are those of its log: each is read once, and a log with a gap is an error.

What the relay writes is there once.
"""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from schemas.tables import ALERT_DELIVERIES, ALERTS
from streaming.relay.notice import read_notice, record_of
from streaming.relay.tables import AlertLogError, DeliveryLog, RelayTables
from streaming.warehouse import appender
from streaming.warehouse.readable_rows import Row
from streaming.warehouse.table_store import create_file
from streaming.warehouse.tables import table_path
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.relay.stage import START_MS, alert_row

Write = Callable[..., None]


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


@pytest.fixture
def write(warehouse: Path) -> Write:
    """Write the alerts of a batch of the query, or of another writer."""
    writer = DeltalakeWriter(warehouse)
    batches = iter(range(100))

    def write(*names: str, batch_id: int | None = None, writer_id: str = "app") -> None:
        rows = [alert_row(name, "FIRING", START_MS) for name in names]
        append_rows(writer, {"alerts": rows}, writer_id, next(batches) if batch_id is None else batch_id)

    return write


def follow(warehouse: Path) -> RelayTables:
    """The tables of a relay that has loaded all rows so far."""
    tables = RelayTables(warehouse)
    tables.read_history([], 0, 0)
    return tables


def names(tables: RelayTables) -> list[str]:
    return [row.alert_id for row in tables.read_new_alerts()]


def table_of(warehouse: Path) -> str:
    return table_path(warehouse, ALERTS.name)


def test_only_files_that_were_added_since_are_read_and_each_once(warehouse: Path, write: Write) -> None:
    write("a")
    tables = follow(warehouse)
    assert names(tables) == []
    write("b")
    write("c", "d")
    write("quality", batch_id=7, writer_id="another")
    assert sorted(names(tables)) == ["b", "c", "d", "quality"]
    assert names(tables) == []


def test_a_batch_that_runs_again_adds_nothing(warehouse: Path, write: Write) -> None:
    """Under other rules it may have other rows, which the table skips."""
    tables = follow(warehouse)
    write("a", batch_id=50)
    write("other", batch_id=50)
    assert names(tables) == ["a"]


def test_rows_that_maintenance_writes_again_are_not_new(warehouse: Path, write: Write) -> None:
    """Compacted rows, and rows that a deletion left; an append in between is, once."""
    write("a")
    write("gone")
    tables = follow(warehouse)
    table = DeltaTable(table_of(warehouse))
    write("b")
    table.update_incremental()
    table.optimize.compact()
    table.delete("alert_id = 'gone'")
    write("c")
    assert sorted(names(tables)) == ["b", "c"]
    assert names(tables) == []


def test_a_log_that_no_longer_says_what_is_new_is_an_error_and_not_a_guess(warehouse: Path, write: Write) -> None:
    tables = follow(warehouse)
    for name in "abc":
        write(name)
    DeltaTable(table_of(warehouse)).create_checkpoint()
    (Path(table_of(warehouse)) / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(AlertLogError, match="version 1 of the alerts table is no longer in its log"):
        names(tables)


def test_a_new_file_that_was_compacted_and_deleted_is_an_error_and_not_tried_for_ever(
    warehouse: Path, write: Write
) -> None:
    tables = follow(warehouse)
    for name in "ab":
        write(name)
    table = DeltaTable(table_of(warehouse))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    with pytest.raises(AlertLogError, match="is missing"):
        names(tables)


@pytest.mark.parametrize("has_other", [False, True])
def test_rows_are_written_once_though_the_answer_to_their_commit_was_lost(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, has_other: bool
) -> None:
    def record(name: str) -> Row:
        return record_of(read_notice(alert_row(name, "FIRING", START_MS)), "PENDING", START_MS, receiver="hook")

    def create_and_fail(*arguments: Any, **named: Any) -> None:
        create_file(*arguments, **named)
        raise OSError(errno.EIO, "the directory could not be synced")

    log = DeliveryLog(follow(warehouse), lambda _: None)
    log.add(record("a"), record("b"))
    with monkeypatch.context() as patch:
        patch.setattr(appender, "create_file", create_and_fail)
        with pytest.raises(OSError, match="synced"):
            log.append()
    if has_other:
        RelayTables(warehouse).append(ALERT_DELIVERIES, [record("other")])
    log.add(record("c"))
    log.append()
    assert log.is_recorded(0)
    written = DeltaTable(table_path(warehouse, ALERT_DELIVERIES.name)).to_pyarrow_table()["incident_id"].to_pylist()
    assert sorted(name.partition("-")[0] for name in written) == sorted("abc") + ["other"] * has_other
