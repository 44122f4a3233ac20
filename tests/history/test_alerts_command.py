"""`alerts`: open incidents in one line each, and transitions as they arrive."""

import csv
import io
import json
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from streaming.text.times import wall_ms
from streaming.warehouse.writer import append_rows
from tests.history.warehouse_stage import alert, rows_of, run, write
from tests.support.row_writer import RowWriter


def incident(incident_id: str, state: str, ago_ms: int = 60_000, **columns: Any) -> dict[str, Any]:
    times = dict.fromkeys(("started_at", "changed_at"), wall_ms() - ago_ms)
    return alert(incident_id, state, 0, incident_id=incident_id, **times) | columns


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    now_ms = wall_ms()
    span = {"starts_at": now_ms - 60_000, "ends_at": now_ms + 3_600_000, "changed_at": now_ms - 60_000}
    silence = {
        "silence_id": "3f9a01bc",
        "matchers": '{"consumer_group": ["audit*"]}',
        "created_by": "bob",
        "comment": "x",
    }
    ack = {"incident_id": "cccc1111-2", "acknowledged_by": "ada", "note": "restarting", "acknowledged_at": now_ms}
    of_broker = {"kind": "broker_isolated", "consumer_group": None, "topic": None, "broker_name": "broker-b"}
    return write(
        tmp_path_factory.mktemp("warehouse"),
        {
            "alerts": [
                incident("aaaa1111-1", "FIRING", 3_700_000, severity="warning", **of_broker),
                incident("bbbb1111-1", "FIRING", inhibited_by="cccc1111-2"),
                incident("cccc1111-2", "FIRING", cluster="prod-1"),
                incident("dddd1111-1", "PENDING", consumer_group="audit-eu"),
                incident("cccc1111-1", "RESOLVED"),
            ],
            "acknowledgements": [ack],
            "silences": [silence | span],
        },
    )


def test_open_incidents_are_lines_worst_first_with_who_handles_them(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    result = run(warehouse, "alerts")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line[:5] + line[6:] for line in lines] == [
        ["severity", "state", "kind", "cluster", "group", "id", "handled"],
        ["critical", "FIRING", "starved_queue", "prod-1", "billing", "cccc1111", "ada", "acknowledged"],
        ["warning", "FIRING", "broker_isolated", "c", "broker-b", "aaaa1111"],
        ["critical", "FIRING", "starved_queue", "c", "billing", "bbbb1111", "cccc1111", "inhibits"],
        ["critical", "PENDING", "starved_queue", "c", "audit-eu", "dddd1111", "bob", "silenced"],
    ]
    assert (
        result.stderr == "note: `balancewatch explain ID` has the details of an incident, --history all transitions\n"
    )


def test_a_narrow_terminal_cuts_names_and_neither_kind_nor_id(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = run(warehouse, "alerts").stdout.splitlines()
    assert all("starved_queue" in line or "broker_isolated" in line for line in lines[1:])
    assert [line.split()[6] for line in lines[1:]] == ["cccc1111", "aaaa1111", "bbbb1111", "dddd1111"]
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, run(warehouse, "alerts").stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("--severity warning,info", "aaaa1111-1"),
        ("--kind broker_* --broker broker-b", "aaaa1111-1"),
        ("--group audit-eu", "dddd1111-1"),
        ("--state resolved", "cccc1111-1"),
        ("--cluster prod-*", "cccc1111-2"),
        ("--limit 1", "cccc1111-2"),
        ("--current --state RESOLVED", "cccc1111-1"),
    ],
)
def test_options_choose_incidents(warehouse: Path, options: str, found: str) -> None:
    assert " ".join(row["incident_id"] for row in rows_of(warehouse, "alerts", *options.split())) == found


def test_machines_get_every_column_and_who_handles_an_incident(warehouse: Path) -> None:
    row = next(row for row in rows_of(warehouse, "alerts") if row["incident_id"] == "dddd1111-1")
    assert (row["silenced_by"], row["silence_id"], row["acknowledged_by"]) == ("bob", "3f9a01bc", None)
    assert (row["evidence"], row["fired_at"]) == ({"client_addr": "10.0.0.1:5"}, None)
    rows = list(csv.DictReader(io.StringIO(run(warehouse, "alerts", "-o", "csv").stdout)))
    assert rows[0]["acknowledged_by"] == "ada"
    empty = run(warehouse, "alerts", "--group", "none", "-o", "csv").stdout
    assert {"incident_id", "silenced_by"} <= set(empty.strip().split(","))
    wide = run(warehouse, "alerts", "-o", "wide").stdout.splitlines()
    assert "cccc1111-2" in wide[1]
    assert wide[1].endswith("Nobody consumes 2 queues.")
    assert run(warehouse, "alerts", "-o", "parquet").stdout_bytes.startswith(b"PAR1")


def test_static_labels_are_computed_from_the_settings(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also a silence on one covers the incident, and `silence add` takes its name."""
    rule = {"match": {"consumer_group": "audit*"}, "set": {"team": "audit", "tier": "2"}}
    monkeypatch.setenv("BALANCEWATCH_LABELS", json.dumps([rule]))
    for options in ([], ["--history"], ["--current"]):
        rows = {row["incident_id"]: row["static_labels"] for row in rows_of(warehouse, "alerts", *options)}
        assert rows["dddd1111-1"] == rule["set"]
        assert rows["aaaa1111-1"] == {}
    assert "team=audit tier=2" in run(warehouse, "alerts", "-o", "wide").stdout
    assert "labels: team=audit tier=2" in run(warehouse, "explain", "dddd").stdout
    assert json.loads(run(warehouse, "explain", "dddd", "-o", "json").stdout)["static_labels"] == rule["set"]
    write(tmp_path, {"alerts": [incident("ab1-1", "FIRING", consumer_group="audit"), incident("ab2-1", "FIRING")]})
    words = ["--match", "team=aud*", "--for", "1h", "--owner", "ada", "--reason", "x"]
    assert json.loads(run(tmp_path, "silence", "add", *words, "-o", "json").stdout)[0]["covers_now"] == 1
    silenced = {row["incident_id"]: row["silenced_by"] for row in rows_of(tmp_path, "alerts")}
    assert silenced == {"ab1-1": "ada", "ab2-1": None}
    assert "client_id, cause, team, tier" in run(tmp_path, "silence", "add", "--match", "teem=a", *words[2:]).stderr


def test_a_name_that_is_near_is_noted_where_nothing_is_open(warehouse: Path) -> None:
    result = run(warehouse, "alerts", "--group", "biling")
    assert (result.exit_code, result.stdout) == (0, "No open incident matches.\n")
    assert result.stderr == "note: no such group: 'biling'; nearest: billing\n"


def test_a_prefix_of_several_open_incidents_lists_them(warehouse: Path, tmp_path: Path) -> None:
    for command in (["explain"], ["ack", "--owner", "a", "--note", "b"], ["alerts", "rules"]):
        assert run(warehouse, *command, "no-such").exit_code == 1
    write(tmp_path, {"alerts": [incident("ab1-1", "FIRING"), incident("ab2-1", "PENDING")]})
    result = run(tmp_path, "explain", "ab")
    assert (result.exit_code, result.stderr) == (
        1,
        "error: INCIDENT 'ab' is a prefix of several: ab1-1 (FIRING starved_queue), ab2-1 (PENDING starved_queue)\n",
    )


@pytest.mark.parametrize(("number", "form"), [(signal.SIGINT, "table"), (signal.SIGTERM, "json")])
def test_follow_prints_new_transitions_at_once_until_a_signal(tmp_path: Path, number: int, form: str) -> None:
    """Old ones only with --since, and none of another kind."""
    write(tmp_path, {"alerts": [alert("old", "FIRING", 5)]})
    options = ["--follow", "--kind", "starved_queue", "-o", form, "--warehouse", str(tmp_path)]
    since = ["--since", "2025-06-15"] if form == "json" else []
    command = [sys.executable, "-u", "-m", "streaming.cli", "alerts", *options, *since]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = [process.stdout.readline()] if since else []
    rows = [alert("new", "RESOLVED", 65), alert("other", "FIRING", 66, kind="broker_isolated")]
    writer, pause = RowWriter(tmp_path), 0 if since else 3
    for batch_id in range(1, 7):
        time.sleep(pause)  # what it finds when it opens the table is old: try again until it has
        append_rows(writer, {"alerts": rows}, "app", batch_id)
        if select.select([process.stdout], [], [], 20)[0]:
            break
    printed.append(process.stdout.readline())
    process.send_signal(number)
    rest, errors = process.communicate(timeout=60)
    assert (process.returncode, rest, errors) == (0, "", "")
    if form == "json":
        assert [json.loads(line)["incident_id"] for line in printed] == ["old-1", "new-1"]
    else:
        assert printed[0].split()[3:7] == ["RESOLVED", "critical", "starved_queue", "c"]
