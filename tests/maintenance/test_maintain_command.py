"""`balancewatch maintain` as one types it: what it prints, what it refuses, and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner, Result

from schemas.tables import QUARANTINE, TABLES
from streaming.cli import app
from streaming.warehouse.tables import table_path
from tests.maintenance.rows import DAY_MS, row_of, write
from tests.support.row_writer import create_tables


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All tables; of the quarantine ten files, one of them with a message of long ago."""
    monkeypatch.chdir(tmp_path)
    create_tables(tmp_path / "warehouse")
    now_ms = int((tmp_path / "warehouse").stat().st_mtime * 1000)
    for number in range(10):
        at_ms = now_ms - (1_000 * DAY_MS if number == 0 else 0)
        write(tmp_path / "warehouse", QUARANTINE, [row_of(QUARANTINE, at_ms, offset=number)])
    return tmp_path / "warehouse"


def typed(warehouse: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["maintain", "--warehouse", str(warehouse), *arguments])


def reported(warehouse: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    result = typed(warehouse, "--format", "json", *arguments)
    assert result.exit_code == 0, result.output
    return {row["table"]: row for row in json.loads(result.stdout)}


def test_a_dry_run_reports_each_table_and_the_real_one_does_it(warehouse: Path) -> None:
    dry = reported(warehouse, "--dry-run")
    assert dry.keys() == TABLES.keys()
    row = dry["quarantine"]
    assert (row["rows"], row["rows_dropped"], row["files_compacted"], row["dry_run"]) == (10, 1, 10, True)
    assert DeltaTable(table_path(warehouse, "quarantine")).version() == 10
    done = reported(warehouse)["quarantine"]
    assert (done["rows_dropped"], done["files_made"], done["dry_run"]) == (1, 1, False)
    assert DeltaTable(table_path(warehouse, "quarantine")).to_pyarrow_table().num_rows == 9


def test_a_person_reads_a_table_that_fits_the_terminal(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = typed(warehouse, "--dry-run")
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("quarantine" in line and "10 → ≤ 1" in line and "-1" in line for line in lines)
    assert "Dry run: nothing was changed." in result.stdout


def test_flags_say_which_tables_and_what(warehouse: Path) -> None:
    only = reported(warehouse, "--table", "quarantine", "--no-retention")
    assert list(only) == ["quarantine"]
    assert (only["quarantine"]["rows_dropped"], only["quarantine"]["files_made"]) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--table", "alert"], 2, "--table 'alert': choose one of alerts, "),
        (["--format", "csv"], 2, "--output 'csv': choose table or json"),
        (["--warehouse", "nowhere"], 1, "paths.warehouse = 'nowhere': no tables found"),
    ],
)
def test_what_cannot_work_ends_in_a_sentence_that_names_it(
    arguments: list[str], code: int, sentence: str, warehouse: Path
) -> None:
    result = typed(warehouse, *arguments)
    assert result.exit_code == code
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1
