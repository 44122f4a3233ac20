"""Tables of earlier releases, logs that change while they are listed, and the commits of a log."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from schemas.tables import ALERTS, MEMBERSHIPS, TABLES, TOMBSTONES, Column, ColumnType
from streaming.warehouse import tables
from streaming.warehouse.appender import Appender
from streaming.warehouse.delta_log import in_one_line, read_commit
from streaming.warehouse.readable_rows import read_table
from streaming.warehouse.rows import arrow_schema, arrow_table
from streaming.warehouse.tables import open_table, table_path, whole
from streaming.warehouse.warehouse_error import WarehouseError
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.history.warehouse_stage import member
from tests.maintenance.rows import NOW_MS, row_of, write


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PAUSE_SECONDS", 0.0)


class Listing:
    """Shows a gap so many times."""

    def __init__(self, gaps: int, text: str = "Expected contiguous commit files, but found gap: 7, 9") -> None:
        self.gaps, self.text, self.looks = gaps, text, 0

    def __call__(self) -> str:
        self.looks += 1
        if self.looks <= self.gaps:
            raise DeltaError(self.text)
        return "whole"


def test_a_listing_with_a_gap_is_made_again() -> None:
    assert whole(Listing(3)) == "whole"


@pytest.mark.parametrize(
    ("listing", "words", "looks"),
    [(Listing(1_000), "found gap", tables.TIMES + 1), (Listing(1, "no such file"), "no such file", 1)],
    ids=["a gap that stays", "anything else"],
)
def test_another_error_is_reported_at_once_and_a_gap_that_stays_after_all_tries(
    listing: Listing, words: str, looks: int
) -> None:
    with pytest.raises(DeltaError, match=words):
        whole(listing)
    assert listing.looks == looks


def test_the_words_are_those_of_delta(tmp_path: Path) -> None:
    """A log without its second commit says so in the words that are looked for."""
    for number in range(3):
        write_deltalake(str(tmp_path), pa.table({"a": [number]}), mode="append")
    (tmp_path / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(DeltaError) as caught:
        DeltaTable(str(tmp_path))
    assert tables.is_gap(caught.value)


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    for number in range(3):
        write(tmp_path, ALERTS, [row_of(ALERTS, NOW_MS, incident_id=f"i{number}")])
    return open_table(tmp_path, ALERTS)


def test_a_commit_names_the_files_that_an_append_added_and_no_rewritten_ones(table: DeltaTable, tmp_path: Path) -> None:
    """Creation, compaction and vacuum add none; the file that a deletion rewrites holds old rows."""
    path = table_path(tmp_path, "alerts")
    appended = table.file_uris()
    table.optimize.compact()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    kept = int(table.version())
    table.delete("incident_id = 'i1'")
    commits = [read_commit(path, version) for version in range(int(table.version()) + 1)]
    assert [len(commit.appended) for commit in commits if commit] == [0, 1, 1, 1, *[0] * (kept - 2)]
    names = {file for commit in commits if commit for file in commit.appended}
    assert names == {uri.rpartition("/")[2] for uri in appended}
    assert read_commit(path, 99) is None


def test_a_name_that_ends_lines_of_text_ends_none_of_the_log(tmp_path: Path) -> None:
    """The log holds the least and the greatest of each column; JSON leaves U+2028 and U+0085 as they are."""
    for number, ends in enumerate(("\u2028", "\u2029", "\x85", "\x1c", "\r\n")):
        write(tmp_path, ALERTS, [row_of(ALERTS, NOW_MS, summary=f"client{ends}a")])
        commit = read_commit(table_path(tmp_path, "alerts"), number + 1)
        assert commit is not None
        assert len(commit.appended) == 1


def test_what_delta_says_of_rows_that_break_its_schema_is_one_sentence() -> None:
    said = "Invalid data found:\n1 rows failed validation check. Preview of invalid data: +----+\n| id |\n+----+"
    assert in_one_line(RuntimeError(said)) == "Invalid data found: 1 rows failed validation check."


LEFT_OUT = "strategy"
OLDER = replace(MEMBERSHIPS, columns=tuple(one for one in MEMBERSHIPS.columns if one.name != LEFT_OUT))
ROW = {name: value for name, value in member("A", "JOINED", 0).items() if name != LEFT_OUT}


def read(warehouse: Path) -> pa.Table:
    return open_table(warehouse, MEMBERSHIPS).to_pyarrow_table().sort_by("batch_id")


def test_a_table_of_an_older_release_gets_the_columns_it_lacks_and_keeps_its_rows(tmp_path: Path) -> None:

    write_deltalake(open_table(tmp_path, OLDER), arrow_table([ROW], OLDER, 0), mode="append")
    assert LEFT_OUT not in open_table(tmp_path, OLDER).to_pyarrow_table().column_names
    append_rows(DeltalakeWriter(tmp_path), {"memberships": [{**ROW, LEFT_OUT: "AVG"}]}, "app", 1)
    assert read(tmp_path).column(LEFT_OUT).to_pylist() == [None, "AVG"]
    protocol = open_table(tmp_path, MEMBERSHIPS).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)


@pytest.mark.parametrize(("hours", "then"), [(None, "interval 2 hours"), ("interval 99 hours", "interval 99 hours")])
def test_a_table_of_an_older_release_gets_a_log_that_forgets_unless_its_owner_has_said_when(
    hours: str | None, then: str, tmp_path: Path
) -> None:
    path = table_path(tmp_path, "memberships")
    DeltaTable.create(path, schema=arrow_schema(MEMBERSHIPS), configuration={TOMBSTONES: hours} if hours else {})
    assert [open_table(tmp_path, MEMBERSHIPS).version() for _ in range(2)] == [0 if hours else 1] * 2
    assert DeltaTable(path).metadata().configuration[TOMBSTONES] == then


def test_an_older_process_appends_beside_a_newer_one_and_both_read_all_rows(tmp_path: Path) -> None:
    older = Appender(table_path(tmp_path, "memberships"), open_table(tmp_path, OLDER))
    newer = replace(MEMBERSHIPS, columns=tuple(replace(one, is_required=True) for one in MEMBERSHIPS.columns))
    assert not {field.name: field for field in open_table(tmp_path, newer).schema().fields}["cluster"].nullable
    appender = Appender(table_path(tmp_path, "memberships"))
    for batch_id in (0, 2):
        assert older.append(arrow_table([ROW], OLDER, batch_id)) is not None
        assert appender.append(arrow_table([ROW | {LEFT_OUT: "AVG"}], MEMBERSHIPS, batch_id + 1)) is not None
    assert read(tmp_path).column(LEFT_OUT).to_pylist() == [None, "AVG", None, "AVG"]
    rows = read_table(tmp_path, OLDER)
    assert [row["batch_id"] for row in rows] == [0, 1, 2, 3]
    assert all(LEFT_OUT not in row for row in rows)


def test_a_table_that_requires_columns_of_another_release_is_refused_and_stays(tmp_path: Path) -> None:
    other = Column("owner_id", ColumnType.STRING, "Owner.", is_required=True)
    version = open_table(tmp_path, replace(OLDER, columns=(*OLDER.columns, other))).version()
    with pytest.raises(WarehouseError, match="this release does not write owner_id, which the table requires"):
        open_table(tmp_path, MEMBERSHIPS)
    assert DeltaTable(table_path(tmp_path, "memberships")).version() == version


def test_a_batch_that_is_run_again_is_appended_once(tmp_path: Path) -> None:
    for batch_id in (0, 0, 1, 0):
        append_rows(DeltalakeWriter(tmp_path), {"memberships": [ROW | {LEFT_OUT: None}]}, "app", batch_id)
    assert read(tmp_path).column("batch_id").to_pylist() == [0, 1]


def test_rows_of_no_table_are_not_written(tmp_path: Path) -> None:
    append_rows(DeltalakeWriter(tmp_path), {"clock_needed": [{"cluster": "c"}]}, "app", 0)
    assert all(open_table(tmp_path, table).to_pyarrow_table().num_rows == 0 for table in TABLES.values())
