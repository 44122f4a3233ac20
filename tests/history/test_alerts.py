"""The alerts command: what it reads from Delta and how it prints it; no JVM, no Kafka."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from streaming.cli import app
from tests.history.warehouse_stage import alert, write


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    first = [alert("one", "FIRING", 5), alert("two", "FIRING", 6, cluster="d")]
    return write(tmp_path_factory.mktemp("warehouse"), {"alerts": first}, {"alerts": [alert("one", "RESOLVED", 65)]})


def printed(warehouse: Path, *arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, ["alerts", "--warehouse", str(warehouse), "--format", "json", *arguments])
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


def test_transitions_come_oldest_first_and_whole(warehouse: Path) -> None:
    rows = printed(warehouse)
    assert [(row["alert_id"], row["state"]) for row in rows] == [
        ("one", "FIRING"),
        ("two", "FIRING"),
        ("one", "RESOLVED"),
    ]
    assert rows[0]["changed_at"] == "2025-06-15T15:06:45.000Z"
    assert rows[0]["evidence"] == {"client_addr": "10.0.0.1:5"}
    assert rows[0]["queues"] == ["broker-a:0", "broker-a:1"]


def test_current_is_the_newest_of_each_incident(warehouse: Path) -> None:
    assert {row["alert_id"]: row["state"] for row in printed(warehouse, "--current")} == {
        "one": "RESOLVED",
        "two": "FIRING",
    }


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--state", "firing"], ["one", "two"]),
        (["--current", "--state", "FIRING"], ["two"]),
        (["--cluster", "d"], ["two"]),
        (["--kind", "duplicate_client_id"], []),
        (["--group", "billing", "--topic", "orders", "--cluster", "c"], ["one", "one"]),
    ],
)
def test_filters(warehouse: Path, arguments: list[str], found: list[str]) -> None:
    assert [row["alert_id"] for row in printed(warehouse, *arguments)] == found


def test_csv_has_every_column(warehouse: Path) -> None:
    result = CliRunner().invoke(app, ["alerts", "--warehouse", str(warehouse), "--format", "csv"])
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert rows[0]["queues"] == "broker-a:0 broker-a:1"
    assert {"inhibited_by", "started_at", "batch_id"} <= rows[0].keys()


def test_a_table_fits_the_terminal(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = CliRunner().invoke(app, ["alerts", "--warehouse", str(warehouse)])
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert "FIRING" in result.stdout


@pytest.mark.parametrize("text", ["{", "[1]", "null", "7", "", "[" * 100_000])
def test_a_row_whose_json_cannot_be_read_hides_no_other(text: str, tmp_path: Path) -> None:
    bad, good = alert("bad", "FIRING", 5, evidence=text, labels=text), alert("good", "FIRING", 6)
    rows = printed(write(tmp_path, {"alerts": [bad, good]}))
    assert [(row["alert_id"], row["evidence"], row["labels"]) for row in rows] == [
        ("bad", {}, {}),
        ("good", {"client_addr": "10.0.0.1:5"}, {}),
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["alerts", "--warehouse", "nowhere"], 1, "paths.warehouse = 'nowhere': no table alerts found"),
        (["alerts", "--format", "yaml"], 2, "--format 'yaml': choose table, json, csv or parquet"),
        (["run"], 2, "kafka.bootstrap_servers is empty"),
        (["collect", "--bootstrap-servers", "x:1"], 2, "collector.name_server is empty"),
        (["simulate", "no_such", "--bootstrap-servers", "x:1"], 2, "no_such"),
        (["simulate", "--bootstrap-servers", "x:1", "--speed", "fast"], 2, "--speed 'fast'"),
        (["demo", "--scenario", "no_such"], 2, "no_such"),
    ],
)
def test_what_cannot_work_ends_in_a_sentence_that_names_it(
    arguments: list[str], code: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1
