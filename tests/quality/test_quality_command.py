"""`balancewatch quality`: the newest results, a check of now, pages, and what is said when it cannot be."""

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conf.settings import Settings
from schemas.events import PULLS, ROUTES
from schemas.suites import SUITES
from streaming.cli import app
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.publisher import Publisher
from streaming.warehouse.writer import append_rows
from tests.conftest import settings_for
from tests.history.warehouse_stage import write
from tests.support.row_writer import RowWriter

AT_MS = 1_750_000_000_000


def row(suite: str, column: str, unexpected: int, at_ms: int = AT_MS) -> dict[str, Any]:
    return {
        "suite": suite,
        "expectation": f"{column} in set",
        "success": not unexpected,
        "evaluated": 1_000,
        "unexpected": unexpected,
        "unexpected_share": unexpected / 1_000,
        "severity": "critical",
        "description": f"{column} is known",
        "observed": ["unknown_queue"] if unexpected else [],
        "sample_offsets": [f"{PULLS}-0@17"] if unexpected else [],
        "topic": suite,
        "offsets": '{"0": [1, 1000]}',
        "query": "balance",
        "validated_at": at_ms,
    }


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pulls' queues failed, and hold again; the routes' brokers fail."""
    root = tmp_path_factory.mktemp("validated")
    earlier = [row(PULLS, "queue", 70), row(ROUTES, "brokers", 0)]
    later = [row(PULLS, "queue", 0, AT_MS + 1), row(ROUTES, "brokers", 40, AT_MS + 1)]
    return write(root, {"quality": earlier}, {"quality": later})


@pytest.fixture
def warehouse(filled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(filled, tmp_path, dirs_exist_ok=True)


def call(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["quality", *arguments])


def listed(warehouse: Path, *arguments: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(call("--warehouse", str(warehouse), "--format", "json", *arguments).stdout)
    return rows


def test_the_newest_result_of_each_expectation_is_shown_and_filtered(filled: Path) -> None:
    rows = listed(filled)
    assert [(one["suite"], one["success"]) for one in rows] == [(ROUTES, False), (PULLS, True)]
    assert (rows[0]["sample_offsets"], rows[0]["validated_at"]) == ([f"{PULLS}-0@17"], "2025-06-15T15:06:40.001Z")
    assert [one["suite"] for one in listed(filled, "--failed")] == [ROUTES]
    assert [one["suite"] for one in listed(filled, "--topic", "*.pulls")] == [PULLS]
    assert listed(filled, "--failed", "--topic", PULLS) == []


def test_people_see_what_fails_and_how_many_hold(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = call("--warehouse", str(filled)).stdout
    assert call("--warehouse", str(filled), "--failed").stdout == shown, "passing ones are counted all the same"
    assert "brokers is known" in shown
    assert "40 of 1,000" in shown
    assert "queue is known" not in shown
    assert "1 of 2 expectations of 2 suites pass." in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_people_see_how_old_the_results_are(warehouse: Path) -> None:
    """The newest, and the topic whose results are oldest."""
    late = row(PULLS, "queue", 0, time.time_ns() // 1_000_000 - 3 * 3_600_000 - 5_000)
    append_rows(RowWriter(warehouse), {"quality": [late]}, "app", 2)
    shown = " ".join(call("--warehouse", str(warehouse)).stdout.split())
    assert re.search(r"Validated \S+ \S+ UTC \(3 h ago\); rocketmq.routes 2025-06-15 15:06:40 UTC \(", shown)


def test_a_removed_expectation_is_not_shown_as_failing(warehouse: Path) -> None:
    """The newest look at the routes asked something else."""
    append_rows(RowWriter(warehouse), {"quality": [row(ROUTES, "queues", 0, AT_MS + 2)]}, "app", 2)
    rows = listed(warehouse)
    assert [(one["expectation"], one["success"]) for one in rows] == [("queue in set", True), ("queues in set", True)]
    assert listed(warehouse, "--failed") == []


@pytest.mark.parametrize("folder", ["nowhere", "empty", "broken"])
def test_pages_of_a_warehouse_that_cannot_be_read_are_not_written(folder: str, tmp_path: Path) -> None:
    """None there, a folder without a table of ours, and a table whose log is spoilt."""
    if folder != "nowhere":
        (tmp_path / folder).mkdir()
    if folder == "broken":
        RowWriter(tmp_path / folder)
        for entry in (tmp_path / folder / "quality" / "_delta_log").iterdir():
            entry.write_text("spoilt")
    result = call("docs", "--warehouse", str(tmp_path / folder), "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "quality" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.xdist_group("great_expectations")
def test_before_the_first_validation_the_pages_have_the_expectations(tmp_path: Path) -> None:
    RowWriter(tmp_path / "new")
    for arguments in ([], ["docs", "--out", str(tmp_path / "out")]):
        result = call(*arguments, "--warehouse", str(tmp_path / "new"))
        assert (result.exit_code, "No sample has been validated yet" in result.stdout) == (0, True)
    assert (tmp_path / "out" / "index.html").read_text().count("not validated yet") == len(SUITES)
    assert not (tmp_path / "out" / "validations").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--warehouse", "nowhere"], 1, "paths.warehouse = 'nowhere': no table quality found"),
        (["--format", "yaml"], 2, "--output 'yaml': choose table, wide, json, csv or parquet"),
        (["check"], 2, "kafka.bootstrap_servers is empty"),
        (
            ["check", "--topic", "x", "--bootstrap-servers", "x:1"],
            2,
            "--topic 'x' is unknown; choose one of rocketmq.heartbeats",
        ),
        (["check", "--format", "parquet", "--bootstrap-servers", "x:1"], 2, "--output 'parquet': choose"),
        (["docs", "--out", __file__], 2, "is a file; name a folder"),
    ],
)
def test_an_error_is_one_sentence_that_names_the_value(
    arguments: list[str], code: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*arguments)
    assert result.exit_code == code
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.real
def test_check_looks_at_kafka_now_and_ends_with_1_when_a_critical_one_fails(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    settings: Settings = settings_for(kafka, tmp_path)
    with Publisher(settings.kafka) as publisher:
        publisher.publish_raw(PULLS, b"k", b"no JSON at all")
        publisher.flush()
    servers = settings.kafka.bootstrap_servers
    result = call("check", "--topic", PULLS, "--bootstrap-servers", servers, "--format", "json", "--sample", "50")
    rows = {one["expectation"]: one for one in json.loads(result.stdout)}
    assert result.exit_code == 1
    assert rows["contract in set"]["success"] is False
    assert any(place.startswith(f"{PULLS}-0@") for place in rows["contract in set"]["sample_offsets"])
