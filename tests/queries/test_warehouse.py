"""The Delta tables across releases, and a batch that is run again."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from schemas.tables import MEMBERSHIPS, TABLES
from streaming.warehouse.rows import arrow_table
from streaming.warehouse.tables import open_table
from streaming.warehouse.writer import DeltalakeWriter, append_rows

LEFT_OUT = "strategy"
OLDER = replace(MEMBERSHIPS, columns=tuple(one for one in MEMBERSHIPS.columns if one.name != LEFT_OUT))
ROW = {
    "cluster": "c",
    "consumer_group": "g",
    "broker_name": "broker-a",
    "client_id": "A",
    "client_addr": "h1:1",
    "language": "JAVA",
    "client_version": "5.3.3",
    "topics": ["orders"],
    "change": "JOINED",
    "last_heartbeat": 1_789_000_000_000,
    "changed_at": 1_789_000_000_000,
}


def read(warehouse: Path) -> pa.Table:
    return open_table(warehouse, MEMBERSHIPS).to_pyarrow_table().sort_by("batch_id")


def test_a_table_of_an_older_release_gets_the_columns_it_lacks_and_keeps_its_rows(tmp_path: Path) -> None:

    write_deltalake(open_table(tmp_path, OLDER), arrow_table([ROW], OLDER, 0), mode="append")
    assert LEFT_OUT not in open_table(tmp_path, OLDER).to_pyarrow_table().column_names
    append_rows(DeltalakeWriter(tmp_path), {"memberships": [{**ROW, LEFT_OUT: "AVG"}]}, "app", 1)
    assert read(tmp_path).column(LEFT_OUT).to_pylist() == [None, "AVG"]
    protocol = open_table(tmp_path, MEMBERSHIPS).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)


def test_a_batch_that_is_run_again_is_appended_once(tmp_path: Path) -> None:
    for batch_id in (0, 0, 1, 0):
        append_rows(DeltalakeWriter(tmp_path), {"memberships": [ROW | {LEFT_OUT: None}]}, "app", batch_id)
    assert read(tmp_path).column("batch_id").to_pylist() == [0, 1]


def test_rows_of_no_table_are_not_written(tmp_path: Path) -> None:
    assert append_rows(DeltalakeWriter(tmp_path), {"clock_needed": [{"cluster": "c"}]}, "app", 0) == {}
    assert all(open_table(tmp_path, table).to_pyarrow_table().num_rows == 0 for table in TABLES.values())
