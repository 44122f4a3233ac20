"""The commands about the history: which rows they print, in which form, and what they say of a wrong question."""

import csv
import io
import json
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from streaming.cli import app
from streaming.history.asked import TABLE_ROWS
from tests.history.stage import alert, assignment, delivery, fault, member, rows_of, run, write
from udfs.rulebook import CANARY_CLUSTER

CANARY = {"cluster": CANARY_CLUSTER}
AT = "2025-06-15T15:07:10Z"
"""30 s after START_MS."""


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return write(
        tmp_path,
        {
            "alerts": [
                alert("one", "FIRING", 5),
                alert("two", "FIRING", 6, cluster="prod-1", kind="broker_isolated", queues=[], topic=None,
                      consumer_group=None, broker_name="broker-b,broker-c"),
                alert("hid", "FIRING", 5, **CANARY),
            ],
            "assignments": [
                assignment(0, "OK", 0), assignment(1, "STARVED", 1, planned_owner=None, observed_owners=[]),
                assignment(0, "OK", 0, consumer_group="audit", topic="orders-eu"), assignment(0, "OK", 0, **CANARY),
            ],
            "memberships": [
                member("A@1", "JOINED", 0), member("B@1", "JOINED", 1, topics=["payments", "orders-eu"]),
                member("C@1", "JOINED", 0, **CANARY),
            ],
            "fault_items": [
                fault("P@1", 0, available=False), fault("Q@1", 1, available=True),
                fault("R@1", 1, available=False, **CANARY),
            ],
            "alert_deliveries": [
                delivery("one", "DUE", 7), delivery("two", "UNROUTED", 7, receiver="*"), delivery("hid", "DUE", 7),
            ],
        },
        {
            "alerts": [alert("one", "RESOLVED", 65)],
            "assignments": [assignment(0, "DOUBLED", 60, observed_owners=["A@1 at 1:5", "A@1 at 2:5"])],
            "memberships": [member("A@1", "LEFT", 60)],
            "fault_items": [fault("P@1", 60, available=True)],
            "alert_deliveries": [delivery("one", "DELIVERED", 8)],
        },
    )  # fmt: skip


def incidents(rows: list[dict[str, Any]]) -> str:
    return " ".join(f"{row['alert_id']}:{row['state']}" for row in rows)


def queues(rows: list[dict[str, Any]]) -> str:
    return " ".join(f"{row['topic']}/{row['queue_id']}:{row['verdict']}" for row in rows)


def changes(rows: list[dict[str, Any]]) -> str:
    return " ".join(f"{row['client_id']}:{row['change']}" for row in rows)


def items(rows: list[dict[str, Any]]) -> str:
    return " ".join(f"{row['client_id']}:{row['available']}" for row in rows)


def outcomes(rows: list[dict[str, Any]]) -> str:
    return " ".join(f"{row['incident_id']}:{row['outcome']}" for row in rows)


@pytest.mark.parametrize(
    ("told", "command", "found"),
    [
        (incidents, "alerts", "one:FIRING two:FIRING one:RESOLVED"),
        (incidents, "alerts --current", "two:FIRING one:RESOLVED"),
        (incidents, "alerts --current --state firing", "two:FIRING"),
        (incidents, f"alerts --at {AT}", "one:FIRING two:FIRING"),
        (incidents, f"alerts --at {AT} --state RESOLVED", ""),
        (incidents, "alerts --since 2025-06-15T15:06:46Z", "two:FIRING one:RESOLVED"),
        (incidents, "alerts --since 2025-06-15T15:06:46Z --until 2025-06-15T15:06:46Z", "two:FIRING"),
        (incidents, "alerts --current --until 2025-06-15T15:06:46Z", "two:FIRING"),
        (incidents, "alerts --state FIRING,RESOLVED --group billing", "one:FIRING one:RESOLVED"),
        (incidents, "alerts --cluster prod-*", "two:FIRING"),
        (incidents, "alerts --cluster *_canary", "hid:FIRING"),
        (incidents, "alerts --broker broker-c", "two:FIRING"),
        (incidents, "alerts --broker broker-a", "one:FIRING one:RESOLVED"),
        (incidents, "alerts --broker broker", ""),
        (incidents, "alerts --kind broker_*", "two:FIRING"),
        (incidents, "alerts --limit 1", "one:RESOLVED"),
        (queues, "assignments", "orders/0:OK orders-eu/0:OK orders/1:STARVED orders/0:DOUBLED"),
        (queues, "assignments --current", "orders-eu/0:OK orders/1:STARVED orders/0:DOUBLED"),
        (queues, "assignments --current --state OK,STARVED", "orders-eu/0:OK orders/1:STARVED"),
        (queues, f"assignments --at {AT} --group billing", "orders/0:OK orders/1:STARVED"),
        (queues, "assignments --topic orders-?? --broker broker-[ab]", "orders-eu/0:OK"),
        (queues, f"assignments --cluster {CANARY_CLUSTER}", "orders/0:OK"),
        (changes, "members", "A@1:JOINED B@1:JOINED A@1:LEFT"),
        (changes, "members --current --state joined,changed", "B@1:JOINED"),
        (changes, "members --topic orders*", "A@1:JOINED B@1:JOINED A@1:LEFT"),
        (changes, "members --topic payments", "B@1:JOINED"),
        (changes, "members --client A*", "A@1:JOINED A@1:LEFT"),
        (items, "faults", "P@1:False Q@1:True P@1:True"),
        (items, "faults --state unavailable", "P@1:False"),
        (items, f"faults --at {AT} --broker broker-b --client P@1", "P@1:False"),
        (items, "faults --current --state unavailable", ""),
        (outcomes, "deliveries", "one-1:DUE two-1:UNROUTED one-1:DELIVERED"),
        (outcomes, "deliveries --state due", "one-1:DUE"),
        (outcomes, "deliveries --cluster prod-1", "two-1:UNROUTED"),
        (outcomes, "deliveries --group billing --receiver pag*", "one-1:DUE one-1:DELIVERED"),
        (outcomes, "deliveries --incident one-1 --topic orders", "one-1:DUE one-1:DELIVERED"),
        (outcomes, "deliveries --broker broker-b", "two-1:UNROUTED"),
    ],
)  # fmt: skip
def test_the_options_say_which_rows(
    warehouse: Path, told: Callable[[list[dict[str, Any]]], str], command: str, found: str
) -> None:
    assert told(rows_of(warehouse, *command.split())) == found


def test_machines_get_every_column_with_times_in_iso_8601(warehouse: Path) -> None:
    row = rows_of(warehouse, "assignments", "--limit", "1")[0]
    assert row == assignment(0, "DOUBLED", 60, observed_owners=["A@1 at 1:5", "A@1 at 2:5"]) | {
        "since": "2025-06-15T15:07:40.000Z",
        "changed_at": "2025-06-15T15:07:40.000Z",
        "batch_id": 1,
    }
    assert rows_of(warehouse, "deliveries", "--limit", "1")[0]["consumer_group"] == "billing"


def test_csv_of_nothing_has_the_heading_alone(warehouse: Path) -> None:
    result = run(warehouse, "faults", "--cluster", "none", "--format", "csv")
    assert result.stdout.splitlines()[0].startswith("cluster,broker_name,client_id")
    assert len(result.stdout.splitlines()) == 1
    rows = csv.DictReader(io.StringIO(run(warehouse, "assignments", "--format", "csv").stdout))
    assert [row["observed_owners"] for row in rows][-1] == "A@1 at 1:5 A@1 at 2:5"


def test_json_of_nothing_is_an_empty_list(warehouse: Path) -> None:
    assert rows_of(warehouse, "members", "--cluster", "none") == []


def test_parquet_has_the_columns_as_the_tables_do(warehouse: Path) -> None:
    result = run(warehouse, "faults", "--format", "parquet")
    table = pq.read_table(pa.BufferReader(result.stdout_bytes))
    assert table.num_rows == 3
    assert table.schema.field("changed_at").type.unit == "us"
    assert table.schema.field("changed_at").type.tz is not None


def test_bytes_do_not_go_to_a_terminal(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.history.asked.is_terminal", lambda: True)
    result = run(warehouse, "faults", "--format", "parquet")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--format parquet writes bytes: send them to a file" in result.stderr


@pytest.mark.parametrize("command", ["alerts", "assignments", "members", "faults", "deliveries"])
def test_a_table_fits_a_narrow_terminal(warehouse: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = run(warehouse, command)
    assert result.exit_code == 0, result.output
    assert 10 < max(len(line) for line in result.stdout.splitlines()) <= 80


@pytest.mark.parametrize("command", ["alerts", "assignments", "members", "faults", "deliveries"])
def test_without_a_row_people_read_a_sentence(warehouse: Path, command: str) -> None:
    result = run(warehouse, command, "--cluster", "none")
    assert result.exit_code == 0
    assert result.stdout.endswith("matches.\n")


def test_a_table_tells_the_local_time_beside_utc_where_they_differ(
    warehouse: Path, zone: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    zone("Europe/Berlin")
    result = run(warehouse, "assignments", "--state", "DOUBLED", "--at", "17:08:00")
    assert "2025-06-15 15:07:40 │ 17:07:40" in run(warehouse, "assignments", "--state", "DOUBLED").stdout
    assert "note: as of" in result.stderr
    assert "UTC (17:08:00 CE" in result.stderr
    assert "17:06:45 CEST" in run(warehouse, "alerts").stdout
    zone("UTC")
    assert "17:07:40" not in run(warehouse, "assignments").stdout


def test_what_a_limit_cuts_off_is_said(tmp_path: Path) -> None:
    write(tmp_path, {"assignments": [assignment(queue, "OK", queue) for queue in range(TABLE_ROWS + 1)]})
    result = run(tmp_path, "assignments")
    assert f"note: the newest {TABLE_ROWS} rows; there are more, and --limit 0 prints all" in result.stderr
    assert "broker-a:0 " not in result.stdout
    assert "note" not in run(tmp_path, "assignments", "--limit", "0").stderr
    assert len(rows_of(tmp_path, "assignments")) == TABLE_ROWS + 1
    assert [row["queue_id"] for row in rows_of(tmp_path, "assignments", "--limit", "2")] == [TABLE_ROWS - 1, TABLE_ROWS]


def test_names_cannot_command_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    write(tmp_path, {"memberships": [member("\x1b[2Jevil\x9b", "JOINED", 0)]})
    assert "\x1b" not in run(tmp_path, "members").stdout
    assert "\\x1b[2Jevil\\x9b" in run(tmp_path, "members").stdout


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("alerts --state burning", "--state 'burning': choose one of PENDING, FIRING, RECOVERING, RESOLVED, UNKNOWN"),
        ("assignments --state ok,bad", "--state 'ok,bad': choose one of OK, STARVED"),
        ("faults --state ,", "--state ',': choose one of AVAILABLE, UNAVAILABLE"),
        ("members --since soon", "--since 'soon' is neither a span such as 90s"),
        ("members --until 25:00", "--until '25:00' is neither"),
        ("alerts --at 2h --since 3h", "--at is one moment: leave out --since, --until and --current"),
        ("alerts --at 2h --current", "--at is one moment"),
        ("faults --since 1h --until 2h", "--since 1h is not before --until 2h"),
        ("deliveries --format xml", "--format 'xml': choose table, json, csv or parquet"),
        (f"alerts --group {'g' * 256}", "give 1 to 255 characters"),
    ],
)
def test_a_wrong_question_ends_with_2_and_one_sentence_that_names_the_option(
    warehouse: Path, command: str, sentence: str
) -> None:
    result = run(warehouse, *command.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "command", ["alerts", "assignments", "members", "faults", "deliveries", "owner t b:1", "explain"]
)
def test_a_warehouse_that_is_not_there_ends_with_1_and_names_the_setting(tmp_path: Path, command: str) -> None:
    result = run(tmp_path / "nowhere", *command.split())
    assert result.exit_code == 1
    assert "paths.warehouse = " in result.stderr
    assert "table there; has `run` written it?" in result.stderr


@pytest.mark.parametrize("pattern", ["prod-*", "?", "[ab]*", "[!a]*", "*-1", "a*b?", "prod-1", "*"])
def test_globs_mean_what_they_mean_in_the_rules(tmp_path: Path, pattern: str) -> None:
    names = ["prod-1", "prod-22", "a", "b", "abc", "axxbz", "", "Prod-1", "a%b_", "prod-1\n"]
    write(tmp_path, {"assignments": [assignment(n, "OK", n, consumer_group=name) for n, name in enumerate(names)]})
    found = [row["consumer_group"] for row in rows_of(tmp_path, "assignments", "--group", pattern)]
    assert found == [name for name in names if fnmatchcase(name, pattern)]


def test_values_are_never_sql(warehouse: Path) -> None:
    assert rows_of(warehouse, "assignments", "--group", "' OR 1 = 1 --") == []
    assert rows_of(warehouse, "alerts", "--kind", "$canary") == []


def test_sql_prints_what_was_asked_in_every_form(warehouse: Path) -> None:
    question = "SELECT verdict, count(*) AS n, max(changed_at) AS newest FROM assignments_now GROUP BY ALL ORDER BY 1"
    newest = "2025-06-15T15:07:40.000Z"
    assert rows_of(warehouse, "sql", question)[0] == {"verdict": "DOUBLED", "n": 1, "newest": newest}
    assert run(warehouse, "sql", question, "--format", "csv").stdout.splitlines()[:2] == [
        "verdict,n,newest",
        f"DOUBLED,1,{newest}",
    ]
    table = run(warehouse, "sql", question, "--limit", "1")
    assert "DOUBLED" in table.stdout
    assert "STARVED" not in table.stdout
    assert "note: the first 1 row; there are more" in table.stderr
    assert (
        pq.read_table(pa.BufferReader(run(warehouse, "sql", question, "--format", "parquet").stdout_bytes)).num_rows
        == 3
    )


def test_sql_comes_from_a_file_or_from_stdin_too(warehouse: Path, tmp_path: Path) -> None:
    file = tmp_path / "question.sql"
    file.write_text("SELECT 1 AS a")
    assert rows_of(warehouse, "sql", "-f", str(file)) == [{"a": 1}]
    arguments = ["sql", "-", "--warehouse", str(warehouse), "--format", "json"]
    assert json.loads(CliRunner().invoke(app, arguments, input="SELECT 2 AS a").stdout) == [{"a": 2}]


def test_sql_without_a_question_lists_the_views_with_their_columns(warehouse: Path) -> None:
    listed = run(warehouse, "sql").stdout
    assert "assignments_at(moment)" in listed
    assert "what is wrong: starved_queue" in listed
    assert "starved_queues" in listed
    rows = rows_of(warehouse, "sql")
    assert {
        "view": "alerts",
        "column": "changed_at",
        "type": "TIMESTAMP",
        "comment": "event time of this transition",
    } in rows


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["SELECT * FROM alertz"], 1, 'Did you mean "alerts"?'),
        (["DROP VIEW alerts"], 1, "only one SELECT at a time"),
        (["SELECT 1", "-f", "x.sql"], 2, "give either the SQL or --file"),
        (["-f", "no-such-file.sql"], 2, "--file no-such-file.sql: No such file or directory"),
        ([" "], 2, "the SQL is empty"),
        (["SELECT * FROM range(1000000000000)", "--timeout", "0.2", "--limit", "0"], 1, "no answer within 0.2 s"),
    ],
)
def test_sql_says_in_one_sentence_what_is_wrong(
    warehouse: Path, arguments: list[str], code: int, sentence: str
) -> None:
    result = run(warehouse, "sql", *arguments)
    assert result.exit_code == code
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1
