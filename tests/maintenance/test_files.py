"""Unused files of a table's folder: only what Delta wrote is deleted."""

import os
from pathlib import Path

import pytest

from schemas.tables import ASSIGNMENTS
from tests.maintenance.rows import NOW_MS, row_of, write
from tests.maintenance.test_upkeep import part, work


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    write(tmp_path, ASSIGNMENTS, [row_of(ASSIGNMENTS, NOW_MS)])
    return tmp_path


def test_what_delta_did_not_write_stays_however_old(warehouse: Path) -> None:
    table = warehouse / "assignments"
    own = ["notes.txt", "part-old.parquet", "mine.parquet", "sub/mine.parquet", f"sub/{part('d')}", ".hidden/a.parquet"]
    left = [part("e"), part("f").replace("-c000.snappy", ".c000.zstd"), f"deletion_vector_{part('1')[11:47]}.bin"]
    for name in (*own, *left):
        (table / name).parent.mkdir(exist_ok=True)
        (table / name).write_bytes(b"x")
        os.utime(table / name, (0, 0))
    dry = work(warehouse, "assignments", dry_run=True)["assignments"]
    assert work(warehouse, "assignments")["assignments"].files_deleted == dry.files_deleted == len(left)
    assert [name for name in own if not (table / name).is_file()] == []
    assert [name for name in left if (table / name).exists()] == []
