"""What the log says of a commit: appended rows are new, compacted and rewritten ones are not."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from schemas.tables import ALERTS
from streaming.warehouse.delta_log import in_one_line, read_commit
from streaming.warehouse.tables import open_table, table_path
from tests.maintenance.rows import NOW_MS, row_of, write


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    for number in range(3):
        write(tmp_path, ALERTS, [row_of(ALERTS, NOW_MS, incident_id=f"i{number}")])
    return open_table(tmp_path, ALERTS)


def test_an_append_adds_its_files_and_the_creation_none(table: DeltaTable, tmp_path: Path) -> None:
    path = table_path(tmp_path, "alerts")
    appended = [read_commit(path, version) for version in range(1, 4)]
    names = {file for commit in appended if commit for file in commit.appended}
    assert names == {uri.rpartition("/")[2] for uri in table.file_uris()}
    made = read_commit(path, 0)
    assert made is not None
    assert (made.new_files, made.removes_rows) == ((), False)


def test_compaction_and_vacuum_add_nothing(table: DeltaTable, tmp_path: Path) -> None:
    table.optimize.compact()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    for version in range(4, int(table.version()) + 1):
        commit = read_commit(table_path(tmp_path, "alerts"), version)
        assert commit is not None
        assert (commit.new_files, commit.removes_rows) == ((), False)


def test_what_a_deletion_wrote_anew_is_not_appended(table: DeltaTable, tmp_path: Path) -> None:
    table.optimize.compact()
    table.delete("incident_id = 'i1'")
    commit = read_commit(table_path(tmp_path, "alerts"), 5)
    assert commit is not None
    assert (len(commit.new_files), commit.removes_rows, commit.appended) == (1, True, ())


def test_a_version_that_is_not_there_is_none(table: DeltaTable, tmp_path: Path) -> None:
    assert read_commit(table_path(tmp_path, "alerts"), 99) is None


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
