"""What a power cut leaves: files that are there and empty. One table's never stop the upkeep of the others."""

import json
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from conf.settings import Settings
from schemas.tables import ALERTS, ASSIGNMENTS
from streaming.cli import app
from streaming.maintenance import upkeep as upkeep_module
from streaming.maintenance.files import LOG_RETENTION_HOURS
from streaming.maintenance.upkeep import Plan, Report, maintain
from streaming.warehouse.tables import create_tables, table_path
from tests.maintenance.rows import DAY_MS, NOW_MS, row_of, write
from tests.maintenance.test_upkeep import age


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """All tables; alerts and assignments of five files each."""
    create_tables(tmp_path)
    for number in range(5):
        write(tmp_path, ALERTS, [row_of(ALERTS, NOW_MS, incident_id=f"i{number}")])
        write(tmp_path, ASSIGNMENTS, [row_of(ASSIGNMENTS, NOW_MS, queue_id=number)])
    return tmp_path


def reports_of(warehouse: Path) -> dict[str, Report]:
    settings = Settings.load(
        paths={"warehouse": warehouse, "checkpoints": warehouse / "checkpoints"}, maintain={"min_files": 2}
    )
    return {report.table: report for report in maintain(settings, Plan(), NOW_MS + 60 * DAY_MS)}


def test_a_relays_checkpoint_of_an_earlier_release_is_read_by_nobody_however_damaged(warehouse: Path) -> None:
    folder = warehouse / "checkpoints" / "relay"
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
        (folder / name / "0").write_text("")
    reports = reports_of(warehouse)
    assert not [report.failed for report in reports.values() if report.failed]
    assert reports["alerts"].files_compacted == 5


def test_an_empty_commit_hides_rows_so_nothing_is_done_to_its_table_nor_to_rows_about_it(warehouse: Path) -> None:
    log = Path(table_path(warehouse, "alerts")) / "_delta_log"
    (log / f"{5:020}.json").write_text("")
    assert DeltaTable(table_path(warehouse, "alerts")).version() == 5, "Delta itself opens it without the rows"
    age(warehouse, "alerts", LOG_RETENTION_HOURS + 24)
    files = sorted(path.name for path in log.parent.glob("*.parquet"))
    reports = reports_of(warehouse)
    failed = {name for name, report in reports.items() if report.failed}
    assert failed == {"alerts", "alert_deliveries", "acknowledgements"}
    assert all(f"{5:020}.json is empty" in reports[name].failed for name in failed)
    assert sorted(path.name for path in log.parent.glob("*.parquet")) == files
    assert reports["assignments"].files_compacted == 5


def test_a_last_checkpoint_that_is_empty_is_looked_for_in_the_log(warehouse: Path) -> None:
    DeltaTable(table_path(warehouse, "assignments")).create_checkpoint()
    hint = Path(table_path(warehouse, "assignments")) / "_delta_log" / "_last_checkpoint"
    assert json.loads(hint.read_text())["version"] == 5
    hint.write_text("")
    assert not [report.failed for report in reports_of(warehouse).values() if report.failed]


class Panic(BaseException):
    """As pyo3 raises one of Rust's."""


@pytest.mark.parametrize(
    "error", [IndexError("x"), KeyError("reservoirId"), RuntimeError(), Panic("index out of range")]
)
def test_whatever_one_table_meets_the_later_ones_are_maintained_and_the_exit_code_reports(
    warehouse: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    take_stock = upkeep_module.take_stock
    monkeypatch.setattr(
        upkeep_module, "take_stock", lambda handle: fail() if "/alerts" in handle.table_uri else take_stock(handle)
    )
    ended = CliRunner().invoke(app, ["maintain", "--warehouse", str(warehouse), "--format", "json"])
    assert ended.exit_code == 1
    reports = {row["table"]: row for row in json.loads(ended.stdout)}
    assert len(reports) == 11
    assert [name for name, row in reports.items() if row["failed"]] == ["alerts"]
    assert ended.stderr.startswith("error: alerts: ")


def test_a_table_whose_log_is_a_file_is_reported_and_the_others_go_on(warehouse: Path) -> None:
    log = Path(table_path(warehouse, "quarantine")) / "_delta_log"
    shutil.rmtree(log)
    log.write_text("")
    reports = reports_of(warehouse)
    assert "quarantine" not in reports or reports["quarantine"].failed
    assert reports["assignments"].files_compacted == 5
