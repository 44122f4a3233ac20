"""Appends that read nothing of a table: once each, beside other writers, refused if they would break it."""

import errno
import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, TableFeatures, Transaction
from hypothesis import given
from hypothesis import strategies as st

from streaming.warehouse import appender as module
from streaming.warehouse import table_store
from streaming.warehouse.appender import (
    LONGEST,
    Appender,
    AppendRefusedError,
    TableGoneError,
    merged_statistics,
    statistics_of,
)
from streaming.warehouse.table_store import create_file
from tests.support.tiers import in_proof
from tests.warehouse.tables import SCHEMA, append_beside_delta_rs, leave_orphan, make_table, numbers, read


@pytest.fixture
def path(tmp_path: Path) -> str:
    return make_table(tmp_path / "table")


def commits(path: str) -> list[int]:
    return sorted(int(file.stem) for file in (Path(path) / "_delta_log").glob("*.json"))


def data_files(path: str) -> set[str]:
    return {file.name for file in Path(path).glob("*.parquet")}


def active_files(path: str) -> set[str]:
    return {Path(uri).name for uri in DeltaTable(path).file_uris()}


class Counted:
    """The appender's reads and writes, by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, str]] = []
        self._thread = threading.current_thread()
        for name in ("put", "get", "delete", "list", "head"):
            monkeypatch.setattr(obstore, name, self._wrap(name, getattr(obstore, name)))
        for name in ("write_file", "create_file"):
            monkeypatch.setattr(module, name, self._wrap(name, getattr(module, name)))

    def _wrap(self, name: str, function: Any) -> Any:
        def wrapped(store: Any, path: str, *args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is self._thread:  # another test's relay may not have ended yet
                self.calls.append((name, path.rsplit(".", 1)[-1]))
            return function(store, path, *args, **kwargs)

        return wrapped


def test_an_append_writes_one_file_and_one_commit_and_reads_nothing_however_many_there_are(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    appender = Appender(path)
    calls, opened = Counted(monkeypatch), []
    monkeypatch.setattr(module, "DeltaTable", lambda *_: opened.append(path))
    for number in range(120):
        assert appender.append(numbers(number), Transaction("app", number))
    assert calls.calls == [("write_file", "parquet"), ("create_file", "json")] * 120
    assert opened == []
    monkeypatch.undo()
    assert read(path) == list(range(120))
    assert commits(path) == list(range(121))


def test_a_transaction_is_in_once_whoever_wrote_it(path: str) -> None:
    first, second = Appender(path), Appender(path)
    assert first.append(numbers(1), Transaction("app", 1)) == 1
    assert not first.append(numbers(1), Transaction("app", 1))
    assert not second.append(numbers(1), Transaction("app", 1))  # it learns so from the commit in its way
    assert not Appender(path).append(numbers(1), Transaction("app", 1))
    assert second.append(numbers(2), Transaction("other", 1)) == 2, "the version that holds these rows"
    assert not first.append(numbers(0), Transaction("app", 0))
    assert read(path) == [1, 2]
    assert data_files(path) == active_files(path)


def test_a_commit_whose_answer_was_lost_is_known_as_ours(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    appender = Appender(path)

    def create_and_lose_the_answer(*arguments: Any, **named: Any) -> None:
        create_file(*arguments, **named)
        raise FileExistsError("sent again by the client below, and refused")

    with monkeypatch.context() as patch:
        patch.setattr(module, "create_file", create_and_lose_the_answer)
        assert appender.append(numbers(1), Transaction("app", 1))
        assert appender.append(numbers(2))
    assert appender.append(numbers(3), Transaction("app", 2))
    assert read(path) == [1, 2, 3]


@pytest.mark.parametrize("each", [150, *in_proof([400])])
def test_commits_of_three_writers_beside_compactions_and_delta_rs_lose_and_repeat_nothing(path: str, each: int) -> None:
    """Two of the writers share an appender."""
    shared = Appender(path)
    assert append_beside_delta_rs(path, [shared, shared, Appender(path)], each) > 0
    assert commits(path) == list(range(len(commits(path))))


def test_a_file_without_its_commit_is_no_part_of_the_table_and_vacuum_takes_it(path: str) -> None:
    leave_orphan(path)
    (orphan,) = data_files(path)
    assert read(path) == []
    assert Appender(path).append(numbers(1), Transaction("app", 1))
    assert read(path) == [1]
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert orphan not in data_files(path)
    assert read(path) == [1]


def test_each_file_and_its_name_are_synced_before_the_next_step(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this order: data, its folder, commit, the log's folder. No file refers to one that a power cut may lose."""
    synced: list[str] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    appender = Appender(path)
    monkeypatch.setattr(table_store.os, "fsync", record)
    assert appender.append(numbers(1)) == 1
    data, table, commit, log = synced
    assert {data} == data_files(path)
    assert (table, log) == ("table", "_delta_log")
    assert commit.startswith(f".{1:020}.json.")
    assert [file.name for file in (Path(path) / "_delta_log").iterdir() if ".tmp" in file.name] == []
    synced.clear()
    assert Appender(path, is_synced=False).append(numbers(1)) == 2
    assert synced == []


def test_a_failed_write_leaves_no_file(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    appender = Appender(path)

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(table_store.os, "fsync", fail)
        with pytest.raises(OSError, match="No space left"):
            appender.append(numbers(1))
    assert data_files(path) == set()
    assert appender.append(numbers(1)) == 1


@pytest.mark.parametrize("lost", [".", "_delta_log"])
def test_a_table_that_disappears_is_not_begun_anew(path: str, lost: str) -> None:
    appender = Appender(path)
    assert appender.append(numbers(1)) == 1
    gone = Path(path) / lost
    moved = gone.resolve().rename(Path(path).parent / "moved")
    with pytest.raises(TableGoneError, match="mount its volume again"):
        appender.append(numbers(2))
    assert not gone.exists()
    moved.rename(gone.resolve())
    assert appender.append(numbers(2)) == 2
    assert read(path) == [1, 2]


def test_commits_that_were_cleaned_away_meanwhile_are_not_written_over(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = Appender(path)
    for number in range(5):
        Appender(path).append(numbers(number), Transaction("app", number))
    DeltaTable(path).create_checkpoint()
    for file in (Path(path) / "_delta_log").glob("*.json"):
        file.unlink()
    monkeypatch.setattr(module.time, "time", lambda: 2_000_000_000.0)
    assert not idle.append(numbers(4), Transaction("app", 4))
    assert idle.append(numbers(5), Transaction("app", 5))
    assert read(path) == [0, 1, 2, 3, 4, 5]


def test_rows_by_nobody_are_a_transaction_alone(path: str) -> None:
    assert Appender(path).append(numbers(), Transaction("app", 3))
    assert DeltaTable(path).transaction_version("app") == 3
    assert read(path) == []
    assert data_files(path) == set()


def test_a_column_that_is_added_meanwhile_is_null_in_rows_that_lack_it_and_taken_from_those_that_have_it(
    path: str,
) -> None:
    appender = Appender(path)
    DeltaTable(path).alter.add_columns(list(Schema.from_arrow(pa.schema([("note", pa.string())])).fields))
    assert appender.append(numbers(1))
    noted = numbers(2).append_column("note", pa.array(["seen"]))
    assert appender.append(noted)
    rows = DeltaTable(path).to_pyarrow_table().sort_by("number")
    assert rows["note"].to_pylist() == [None, "seen"]


def test_statistics_are_in_the_log_as_readers_want_them(path: str) -> None:
    Appender(path).append(numbers(3, 1, 2))
    commit = (Path(path) / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    (add,) = (json.loads(line)["add"] for line in commit if "add" in json.loads(line))
    stats = json.loads(add["stats"])
    assert stats == {
        "numRecords": 3,
        "minValues": {"number": 1, "at": "1970-01-01T00:00:00.001Z"},
        "maxValues": {"number": 3, "at": "1970-01-01T00:00:00.003Z"},
        "nullCount": {"number": 0, "at": 0},
    }


def test_a_table_without_a_checkpoint_is_trusted_after_a_pause(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    idle = Appender(path)
    monkeypatch.setattr(module.time, "time", lambda: 2_000_000_000.0)
    assert idle.append(numbers(1))
    assert read(path) == [1]


FORBIDDEN: dict[str, Any] = {
    "check constraints": lambda table: table.alter.add_constraint({"positive": "number > 0"}),
    "the table feature rowTracking": lambda table: table.alter.add_feature(
        TableFeatures.RowTracking, allow_protocol_versions_increase=True
    ),
}


@pytest.mark.parametrize("words", FORBIDDEN)
def test_what_an_append_would_break_is_refused_at_the_start_and_when_it_comes_meanwhile(path: str, words: str) -> None:
    appender = Appender(path)
    assert appender.append(numbers(1))
    FORBIDDEN[words](DeltaTable(path))
    with pytest.raises(AppendRefusedError, match=words):
        appender.append(numbers(2))
    with pytest.raises(AppendRefusedError, match=words):
        Appender(path)
    assert read(path) == [1]


def test_partitions_and_column_mapping_are_refused(path: str, tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path), schema=SCHEMA, partition_by=["number"])
    with pytest.raises(AppendRefusedError, match=r"partitions \(by number\)"):
        Appender(str(tmp_path))
    log = Path(path) / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"configuration":{', '"configuration":{"delta.columnMapping.mode":"name",'))
    with pytest.raises(AppendRefusedError, match="column mapping"):
        Appender(path)


def test_features_that_no_append_breaks_are_kept(path: str) -> None:
    for feature in (TableFeatures.ChangeDataFeed, TableFeatures.AppendOnly):
        DeltaTable(path).alter.add_feature(feature, allow_protocol_versions_increase=True)
    assert Appender(path).append(numbers(1))
    assert read(path) == [1]


WRONG_ROWS = {
    "has no column more": numbers(1).append_column("more", pa.array([1])),
    "column number has type int64, but this release writes string": pa.table({"number": ["1"], "at": numbers(1)["at"]}),
    "1 rows have no number": pa.table({"number": pa.array([None], pa.int64()), "at": numbers(1)["at"]}),
    "the rows lack number": numbers(1).drop_columns(["number"]),
}


@pytest.mark.parametrize("words", WRONG_ROWS)
def test_rows_that_are_not_the_tables_are_refused(path: str, words: str) -> None:
    with pytest.raises(AppendRefusedError, match=words):
        Appender(path).append(WRONG_ROWS[words])
    assert data_files(path) == set()


TIMES = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31, 23, 59, 59), timezones=st.just(UTC))
COLUMNS = {
    "text": (pa.string(), st.text(max_size=LONGEST + 3)),
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "share": (pa.float64(), st.floats()),
    "at": (pa.timestamp("us", "UTC"), TIMES),
    "is": (pa.bool_(), st.booleans()),
    "raw": (pa.binary(), st.binary(max_size=5)),
    "names": (pa.list_(pa.string()), st.lists(st.text(max_size=3), max_size=2)),
}
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | of for name, (_, of) in COLUMNS.items()}), min_size=1, max_size=8
)


@given(ROWS, st.none() | st.integers(0, 8))
def test_every_value_is_within_the_bounds_that_are_reported(rows: list[dict[str, Any]], cut: int | None) -> None:
    """Of all at once, and of two parts."""
    table = pa.Table.from_pylist(rows, pa.schema([(name, type_) for name, (type_, _) in COLUMNS.items()]))
    parts = [table] if cut is None else [table.slice(0, cut), table.slice(cut)]
    reported = merged_statistics([*map(statistics_of, parts)])
    assert reported == json.loads(json.dumps(reported, allow_nan=False))
    if cut is None:
        assert reported == statistics_of(table)
    assert reported["numRecords"] == len(rows)
    for name in COLUMNS:
        values = [row[name] for row in rows if row[name] is not None]
        assert reported["nullCount"][name] == len(rows) - len(values)
        if name in reported["minValues"]:
            bounds: list[Any] = [reported[of][name] for of in ("minValues", "maxValues")]
            least, most = map(datetime.fromisoformat, bounds) if name == "at" else bounds
            assert all(least <= value <= most for value in values)
    assert set(reported["minValues"]) == set(reported["maxValues"]) <= {"text", "whole", "share", "at"}
