"""An aged table: each row once, in few files; and the latency of rows that are appended to it."""

from pathlib import Path

import pytest
from deltalake import DeltaTable, Transaction

from schemas.tables import FAULT_ITEMS
from streaming.warehouse.appender import Appender
from streaming.warehouse.rows import arrow_table
from streaming.warehouse.tables import table_path
from tests.history.warehouse_stage import START_MS, fault
from tests.lab.bench.aged_tables import ROWS, age_tables
from tests.lab.bench.soak import WANTED, latencies_since


def test_an_aged_table_has_few_files_and_new_rows_have_their_latency(tmp_path: Path) -> None:
    age_tables(tmp_path, 130, (FAULT_ITEMS,))
    folder = Path(table_path(tmp_path, FAULT_ITEMS.name))
    handle = DeltaTable(str(folder))
    assert (len(handle.file_uris()), handle.to_pyarrow_table().num_rows) == (3, 130 * ROWS)
    version, aged = latencies_since(folder, 0)
    assert (version, len(aged)) == (handle.version() + 1, 130 * ROWS)
    rows = arrow_table([fault("P@1", 1, available=is_out) for is_out in (False, True)], FAULT_ITEMS, 1)
    Appender(str(folder)).append(rows, Transaction("a", 1))
    version, ((committed, latency_ms),) = latencies_since(folder, version, WANTED["FaultItem"][1])
    assert latency_ms == pytest.approx(committed * 1000 - START_MS - 1_000)
    assert latencies_since(folder, version) == (version, [])
