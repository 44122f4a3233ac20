"""Aged tables: each row once, open to readers and writers; and their logs can be followed."""

from pathlib import Path

import pytest
from deltalake import DeltaTable, Transaction

from schemas.tables import FAULT_ITEMS
from streaming.maintenance.table_keeper import TIERS, due_tier
from streaming.warehouse.appender import Appender
from streaming.warehouse.rows import arrow_table
from streaming.warehouse.tables import open_table, table_path
from tests.lab.bench.aged_tables import ROWS, age_table, files_in_use, history_of
from tests.lab.bench.soak import TableLog, latencies_ms

KB = 1 << 10


def test_a_kept_history_has_every_row_once_and_few_small_files() -> None:
    history = list(history_of(10_000, 5 * KB))
    assert sum(not removed for _, removed in history) == 10_000
    files = sorted(files_in_use(history), key=lambda file: file.first)
    assert [file.first for file in files] == [0, *(file.end for file in files[:-1])]
    assert files[-1].end == 10_000 * ROWS
    assert due_tier([file.size for file in files]) is None
    assert len(files) < sum(files_of for _, files_of in TIERS) * 2


def test_an_aged_table_is_read_and_appended_to_as_any_other(tmp_path: Path) -> None:
    folder = Path(table_path(tmp_path, FAULT_ITEMS.name))
    open_table(tmp_path, FAULT_ITEMS)
    in_use = age_table(folder, FAULT_ITEMS, 130)
    handle = DeltaTable(str(folder))
    assert len(handle.file_uris()) == in_use == 4
    assert handle.to_pyarrow_table().num_rows == 130 * ROWS
    assert handle.version() == 132
    row = {
        "cluster": "c",
        "broker_name": "b",
        "client_id": "p",
        "client_version": "5.5.0",
        "current_latency_ms": 700,
        "isolation": False,
        "start_timestamp": 2_000,
        "available": False,
        "changed_at": 1_000,
    }
    log = TableLog(folder)
    assert len(list(log.follow())) == 130
    assert log.small_files == in_use
    assert Appender(str(folder)).append(
        arrow_table([row, row | {"available": True}], FAULT_ITEMS, 1), Transaction("a", 1)
    )
    ((path, committed),) = log.follow()
    ((_, latency_ms),) = latencies_ms(path, committed, only_unavailable=True)
    assert latency_ms == pytest.approx(committed * 1000 - 1_000)
    assert log.small_files == in_use + 1
    assert log.commits == handle.version() + 2
