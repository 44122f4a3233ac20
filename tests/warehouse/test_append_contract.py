"""Tables that ask more of an append than to append are refused with a sentence, at the start and when altered."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures

from streaming.warehouse.appender import Appender, AppendRefusedError
from tests.warehouse.tables import SCHEMA, make_table, numbers, read

FORBIDDEN: dict[str, Any] = {
    "check constraints": lambda table: table.alter.add_constraint({"positive": "number > 0"}),
    "the table feature rowTracking": lambda table: table.alter.add_feature(
        TableFeatures.RowTracking, allow_protocol_versions_increase=True
    ),
}


@pytest.mark.parametrize("words", FORBIDDEN)
def test_what_an_append_would_break_is_refused_at_the_start_and_when_it_comes_meanwhile(
    tmp_path: Path, words: str
) -> None:
    path = make_table(tmp_path)
    appender = Appender(path)
    assert appender.append(numbers(1))
    FORBIDDEN[words](DeltaTable(path))
    with pytest.raises(AppendRefusedError, match=words):
        appender.append(numbers(2))
    with pytest.raises(AppendRefusedError, match=words):
        Appender(path)
    assert read(path) == [1]


def test_partitions_are_refused(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path), schema=SCHEMA, partition_by=["number"])
    with pytest.raises(AppendRefusedError, match=r"partitions \(by number\)"):
        Appender(str(tmp_path))


def test_column_mapping_is_refused(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"configuration":{', '"configuration":{"delta.columnMapping.mode":"name",'))
    with pytest.raises(AppendRefusedError, match="column mapping"):
        Appender(path)


def test_features_that_no_append_breaks_are_kept(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    for feature in (TableFeatures.ChangeDataFeed, TableFeatures.AppendOnly):
        DeltaTable(path).alter.add_feature(feature, allow_protocol_versions_increase=True)
    assert Appender(path).append(numbers(1))
    assert read(path) == [1]


WRONG_ROWS = {
    "has no column more": numbers(1).append_column("more", pa.array([1])),
    "column number has type int64, but this release writes string": pa.table({"number": ["1"], "at": numbers(1)["at"]}),
    "1 rows have no number": pa.table(
        {"number": pa.array([None], pa.int64()), "at": numbers(1)["at"]},
    ),
    "the rows lack number": numbers(1).drop_columns(["number"]),
}


@pytest.mark.parametrize("words", WRONG_ROWS)
def test_rows_that_are_not_the_tables_are_refused(tmp_path: Path, words: str) -> None:
    path = make_table(tmp_path)
    with pytest.raises(AppendRefusedError, match=words):
        Appender(path).append(WRONG_ROWS[words])
    assert [file.name for file in tmp_path.glob("*.parquet")] == []
