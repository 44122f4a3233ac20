"""A row that breaks its table's contract, as a damaged or forged file has it, hides none of the others."""

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from schemas.tables import ALERTS, TABLES
from streaming import data_loss
from streaming.board.tables import Tables
from streaming.cli import app
from streaming.history.alerts import Filter, read_alerts
from streaming.history.store import History
from streaming.quality.quality_alert import read_open
from streaming.queries.warehouse import DeltalakeWriter, append_rows
from tests.oncall.stage import START_MS, alert_row
from tests.oncall.test_unreadable_rows import ENDLESS_MS, add, blank

ALERT: dict[str, Any] = {**alert_row("x", "FIRING", START_MS), "labels": "{}"}
SAID = "1 rows of the table alerts cannot be read and are left out"


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    append_rows(DeltalakeWriter(tmp_path), {"alerts": [alert_row("m", "FIRING", START_MS)]}, "app", 0)
    return tmp_path


@pytest.mark.parametrize("name", [one.name for one in ALERTS.columns if one.is_required])
def test_a_null_where_the_contract_has_none(warehouse: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    blank(warehouse, ALERTS, ALERT, name)
    with caplog.at_level(logging.WARNING):
        assert [row["alert_id"] for row in read_alerts(warehouse, Filter(), current=True)] == ["m"]
    assert caplog.messages == [SAID]


@pytest.mark.parametrize("name", ["changed_at", "fired_at"])
def test_a_time_that_python_has_no_value_for(warehouse: Path, name: str) -> None:
    add(warehouse, ALERTS, ALERT | {name: ENDLESS_MS})
    assert [row["alert_id"] for row in read_alerts(warehouse, Filter(), current=True)] == ["m"]


def test_a_row_of_nulls_in_any_table_is_in_no_view_of_it(warehouse: Path) -> None:
    columns = {
        "STRING": "x",
        "BIGINT": 1,
        "INT": 1,
        "BOOLEAN": True,
        "DOUBLE": 1.0,
        "TIMESTAMP": START_MS,
        "ARRAY<STRING>": [],
    }
    for table in TABLES.values():
        blank(warehouse, table, {one.name: columns.get(one.type.value) for one in table.columns})
    history = History(warehouse)
    assert set(history.left_out) == set(TABLES)
    for table in TABLES.values():
        expected = 1 if table is ALERTS else 0
        for rows in (table.name, f"{table.name}_now", history.between(table, 0), history.newest(table, START_MS)):
            assert history.rows(f"SELECT count(*) AS n FROM {rows}") == [{"n": expected}]


def test_what_comes_while_one_looks_is_left_out_and_said_once(
    warehouse: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = Tables(warehouse)
    assert tables.look().history is not None
    with caplog.at_level(logging.WARNING):
        blank(warehouse, ALERTS, ALERT, "summary")
        seen = tables.look(at_once=True)
        add(warehouse, ALERTS, ALERT)
        seen = tables.look(at_once=True)
    assert seen.history is not None
    assert seen.history.rows("SELECT count(*) AS n FROM alerts") == [{"n": 2}]
    assert caplog.messages == [SAID]


def test_a_column_that_an_older_release_did_not_write_is_no_fault(warehouse: Path) -> None:
    """Its rows are read as ever, beside one that has the column and null in it."""
    history = History(warehouse)
    lacking = next(iter(history._files["alerts"].paths()))
    pq.write_table(pq.read_table(lacking).drop_columns(["advice"]), lacking)
    assert [row["alert_id"] for row in read_alerts(warehouse, Filter())] == ["m"]


def test_the_command_prints_the_others_and_says_on_stderr_what_is_left_out(
    warehouse: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    blank(warehouse, ALERTS, ALERT)
    printed = CliRunner().invoke(
        app, ["alerts", "--current", "--format", "json", "--warehouse", str(warehouse)], catch_exceptions=False
    )
    assert [row["alert_id"] for row in json.loads(printed.stdout)] == ["m"]


@pytest.mark.parametrize("name", ["incident_id", "labels", "changed_at"])
def test_run_starts_though_a_row_of_its_own_cannot_be_read(warehouse: Path, name: str) -> None:
    """Losses and quality alerts that are open are read before the queries begin."""
    for kind in ("data_loss", "data_quality"):
        blank(warehouse, ALERTS, ALERT | {"kind": kind}, name)
    assert data_loss._read_open(warehouse) == []
    assert len(read_open(warehouse)) == (1 if name == "labels" else 0)
