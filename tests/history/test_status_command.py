"""`status`: the problems and the exit code."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streaming.text.times import wall_ms
from tests.history.test_alerts_command import incident
from tests.history.warehouse_stage import assignment, delivery, run, write

HOUR = 3_600_000


def sent(incident_id: str, outcome: str, ago_ms: int = 1_000, **columns: Any) -> dict[str, Any]:
    times = {"delivered_at": wall_ms() - ago_ms, "attempt": 0 if outcome == "PENDING" else 1, "receiver": "log"}
    return delivery("", outcome, 0, **times) | {"incident_id": incident_id} | columns


def quiet(ago_ms: int = 1_000) -> dict[str, list[dict[str, Any]]]:
    return {
        "alerts": [incident("old-1", "RESOLVED", ago_ms)],
        "assignments": [assignment(0, "OK", 0, changed_at=wall_ms() - ago_ms)],
        "alert_deliveries": [sent("old-1", "DELIVERED", ago_ms)],
    }


def status_of(warehouse: Path) -> tuple[int, dict[str, Any]]:
    result = run(warehouse, "status", "-o", "json")
    return result.exit_code, json.loads(result.stdout)


def test_all_is_well_without_a_problem(tmp_path: Path) -> None:
    rows = quiet()
    rows["alerts"] += [
        incident("info-1", "FIRING", severity="info"),
        incident("pend-1", "PENDING"),
        incident("effect-1", "FIRING", inhibited_by="info-1"),
    ]
    code, answer = status_of(write(tmp_path, rows))
    assert (code, answer["problems"]) == (0, [])
    assert answer["alerts"]["firing"] == {"critical": 0, "error": 0, "warning": 0, "info": 1}
    assert answer["alerts"]["inhibited"] == 1
    assert answer["deliveries"]["receivers"][0]["state"] == "OK"
    printed = run(tmp_path, "status").stdout
    assert printed.startswith("OK: no alert that pages fires, the data are fresh, deliveries work\n")


def test_a_problem_is_a_line_and_the_screen_has_24_lines_of_80(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = quiet()
    names = {"cluster": "production-eu-central-1", "consumer_group": "order-service-reconciliation"}
    rows["alerts"] += [incident(f"{number}aaa111-1", "FIRING", 240_000, **names) for number in range(9)]
    result = run(write(tmp_path, rows), "status")
    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert lines[:2] == [
        "PROBLEM: 9 critical alerts fire",
        "PROBLEM: no relay processed 9 firing alerts within 2 min; is `relay` or `run` up?",
    ]
    assert "and 4 more: balancewatch alerts --state FIRING" in lines
    assert len(lines) <= 24
    assert max(map(len, lines[2:])) <= 80


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (lambda: quiet(HOUR), "data are stale: the newest row is 1 h"),
        (lambda: {"alerts": [incident("n-1", "UNKNOWN", kind="cluster_no_data")]}, "data are missing from c"),
        (lambda: {"alert_deliveries": [sent("a-1", "RETRYING", reason="answered 503")]}, "deliveries to log fail"),
        (lambda: {"alert_deliveries": [sent("a-1", "REFUSED")]}, "deliveries to log fail"),
        (lambda: {"alert_deliveries": [sent("a-1", "PENDING", 130_000)]}, "deliveries to log fail"),
        (lambda: {"alert_deliveries": [sent("a-1", "PENDING", -60_000)]}, ""),
        (lambda: {"alert_deliveries": [sent("a-1", "RETRYING", 9_000), sent("a-1", "DELIVERED")]}, ""),
        (lambda: {"alert_deliveries": [sent("a-1", "RETRYING", receiver="gone")]}, ""),
    ],
)
def test_stale_data_and_failing_deliveries_are_problems(
    tmp_path: Path, rows: Callable[[], dict[str, list[dict[str, Any]]]], problem: str
) -> None:
    code, answer = status_of(write(tmp_path, {**quiet(), **rows()}))
    assert code == bool(problem)
    assert [found[: len(problem)] for found in answer["problems"]] == ([problem] if problem else [])


def test_tables_that_cannot_be_read_end_with_2(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere", "status")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "has `balancewatch run` written here?" in result.stderr
    assert run(tmp_path, "status", "-o", "csv").exit_code == 2
