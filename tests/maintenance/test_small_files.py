"""Small files are taken together with the same rows, whatever other writers do meanwhile."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from schemas.tables import ALERTS, TABLES, Table
from streaming.maintenance import small_files as module
from streaming.maintenance.files import MB, find_unused
from streaming.maintenance.small_files import SmallFiles
from streaming.warehouse.appender import AppendRefusedError
from streaming.warehouse.tables import open_table, table_path
from tests.maintenance.rows import NOW_MS, read, row_of, write

LIMIT = 16 * MB


def files_of(path: str) -> list[str]:
    return sorted(file.name for file in Path(path).glob("*.parquet"))


def rows_of(root: Path, table: Table) -> list[str]:
    return sorted(map(repr, read(root, table.name)))


def compact(files: SmallFiles, size: int = LIMIT) -> bool:
    return all(map(files.compact, files.bins(size)))


@pytest.fixture
def alerts(tmp_path: Path) -> str:
    """Three commits of a row each."""
    for number in range(3):
        write(tmp_path, ALERTS, [row_of(ALERTS, NOW_MS + number, incident_id=f"i{number}")], number)
    return table_path(tmp_path, "alerts")


def incidents(root: Path) -> list[str]:
    return sorted(row["incident_id"] for row in read(root, "alerts"))


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_rows_of_each_table_stay_the_same_with_nulls_and_files_by_delta_rs(
    tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In several row groups, with the statistics of all."""
    monkeypatch.setattr(module, "ROWS_A_GROUP", 3)
    path = table_path(tmp_path, table.name)
    for number in range(3):
        write(tmp_path, table, [row_of(table, NOW_MS + number), row_of(table, NOW_MS - number)], number)
    DeltaTable(path).optimize.compact()
    write(tmp_path, table, [row_of(table, NOW_MS + 9)], 9)
    before, files = rows_of(tmp_path, table), SmallFiles(path, LIMIT)
    assert len(files.sizes) == 2
    assert compact(files)
    assert rows_of(tmp_path, table) == before
    assert len(files.sizes) == 1
    handle = DeltaTable(path)
    assert handle.version() == files.version
    added = pa.table(handle.get_add_actions(flatten=True))
    assert added["path"].to_pylist() == list(files.sizes)
    assert added["num_records"].to_pylist() == [len(before)]
    bounds = [added[f"{end}.{table.time}"][0].as_py().timestamp() * 1000 for end in ("min", "max")]
    assert bounds == [NOW_MS - 2, NOW_MS + 9]
    (file,) = Path(path).glob(next(iter(files.sizes)))
    assert pq.ParquetFile(file).num_row_groups == 2


def test_one_file_takes_as_many_as_reach_its_size_and_one_alone_stays(alerts: str) -> None:
    files = SmallFiles(alerts, LIMIT)
    first, second, third = files.sizes
    size = max(files.sizes.values()) + 1
    assert files.bins(size) == [[first, second]]
    assert files.compact([first, second])
    assert third in files.sizes
    assert len(files.sizes) == 2
    assert not files.compact([first, third]), "one is gone"


def appends(root: Path) -> None:
    write(root, ALERTS, [row_of(ALERTS, NOW_MS, incident_id="new")], 9)


def deletes(root: Path) -> None:
    DeltaTable(table_path(root, "alerts")).delete("incident_id = 'i1'")


def compacts(root: Path) -> None:
    DeltaTable(table_path(root, "alerts")).optimize.compact()


def compacts_too(root: Path) -> None:
    assert compact(SmallFiles(table_path(root, "alerts"), LIMIT))


def alters(root: Path) -> None:
    DeltaTable(table_path(root, "alerts")).alter.add_columns([Field("note", PrimitiveType("string"))])


@pytest.mark.parametrize(
    ("meanwhile", "is_done", "left"),
    [
        (appends, True, ["i0", "i1", "i2", "new"]),
        (deletes, False, ["i0", "i2"]),
        (compacts, False, ["i0", "i1", "i2"]),
        (compacts_too, False, ["i0", "i1", "i2"]),
        (alters, False, ["i0", "i1", "i2"]),
    ],
)
def test_what_another_writer_commits_meanwhile_holds(
    tmp_path: Path,
    alerts: str,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[Path], None],
    is_done: bool,
    left: list[str],
) -> None:
    """A compaction that came too late leaves no file; the next one succeeds."""
    files, act = SmallFiles(alerts, LIMIT), [meanwhile]
    create = module.create_commit

    def late(*args: Any, **kwargs: Any) -> None:
        if act:
            act.pop()(tmp_path)
        create(*args, **kwargs)

    monkeypatch.setattr(module, "create_commit", late)
    assert compact(files) is is_done
    assert incidents(tmp_path) == left
    assert files.version == DeltaTable(alerts).version()
    assert set(files.sizes) == {Path(uri).name for uri in DeltaTable(alerts).file_uris()}
    named = {
        action["add"]["path"]
        for commit in (Path(alerts) / "_delta_log").glob("*.json")
        for action in map(json.loads, commit.read_text().splitlines())
        if "add" in action
    }
    assert set(files_of(alerts)) == named
    appends(tmp_path)
    files.follow()
    assert compact(files)
    assert incidents(tmp_path) == sorted([*left, "new"])
    assert len(files.sizes) == 1


def test_a_commit_whose_answer_was_lost_is_known_as_ours(
    tmp_path: Path, alerts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, create = SmallFiles(alerts, LIMIT), module.create_commit

    def twice(*args: Any, **kwargs: Any) -> None:
        create(*args, **kwargs)
        create(*args, **kwargs)

    monkeypatch.setattr(module, "create_commit", twice)
    assert compact(files)
    assert incidents(tmp_path) == ["i0", "i1", "i2"]
    assert files.version == DeltaTable(alerts).version()


def test_a_compaction_that_is_killed_before_its_commit_changes_nothing(
    tmp_path: Path, alerts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is no part of the table, and the next one succeeds."""
    files, before = SmallFiles(alerts, LIMIT), set(files_of(alerts))
    with monkeypatch.context() as patch:
        patch.setattr(module, "create_commit", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            compact(files)
    assert incidents(tmp_path) == ["i0", "i1", "i2"]
    (left,) = set(files_of(alerts)) - before
    assert compact(SmallFiles(alerts, LIMIT))
    assert incidents(tmp_path) == ["i0", "i1", "i2"]
    os.utime(Path(alerts) / left, (0, 0))
    assert left in find_unused(DeltaTable(alerts), 2)


def test_a_file_of_an_older_release_gets_nulls_in_new_columns_and_columns_of_others_stay(tmp_path: Path) -> None:
    path = table_path(tmp_path, "alerts")
    write(tmp_path, ALERTS, [row_of(ALERTS, NOW_MS, incident_id="old")])
    columns = pa.table({"note": pa.array(["mine"], pa.string())})
    DeltaTable(path).alter.add_columns([Field("note", PrimitiveType("string"))])
    rows = DeltaTable(path).to_pyarrow_table().drop_columns("note").append_column("note", columns["note"])
    write_deltalake(path, rows, mode="append")
    assert compact(SmallFiles(path, LIMIT))
    assert sorted(map(str, DeltaTable(path).to_pyarrow_table()["note"].to_pylist())) == ["None", "mine"]


def test_a_log_is_followed_and_a_table_with_deletion_vectors_left_to_delta_rs(alerts: str, tmp_path: Path) -> None:
    files = SmallFiles(alerts, LIMIT)
    appends(tmp_path)
    files.follow()
    assert (len(files.sizes), files.version) == (4, DeltaTable(alerts).version())
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors", "appendOnly", "invariants"],
    }
    commit = Path(alerts) / "_delta_log" / f"{files.version + 1:020}.json"
    commit.write_text(json.dumps({"protocol": {**protocol, **features}}))
    files.follow()
    assert files.sizes == {}


def test_a_table_that_asks_more_of_its_writers_is_refused(alerts: str, tmp_path: Path) -> None:
    DeltaTable(alerts).alter.add_constraint({"named": "incident_id <> 'nobody'"})
    with pytest.raises(AppendRefusedError, match="check constraints"):
        SmallFiles(alerts, LIMIT)
    assert open_table(tmp_path, ALERTS).version() == DeltaTable(alerts).version()
