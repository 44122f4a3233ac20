"""The commands about the history: which rows they print, in which form, and what they say of a wrong question."""

import csv
import io
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from streaming.cli import app
from streaming.history.query_options import MOST_ROWS, TABLE_ROWS
from tests.history.warehouse_stage import START_MS, alert, assignment, delivery, fault, member, rows_of, run, write
from udfs.alerts.rulebook import CANARY_CLUSTER

CANARY = {"cluster": CANARY_CLUSTER}
AT = "2025-06-15T15:07:10Z"
"""30 s after START_MS."""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(
        tmp_path_factory.mktemp("warehouse"),
        {
            "alerts": [
                alert("one", "FIRING", 5),
                alert("two", "FIRING", 6, cluster="prod-1", kind="broker_isolated", queues=[], topic=None,
                      consumer_group=None, broker_name="broker-b,broker-c"),
                alert("hid", "FIRING", 5, **CANARY),
            ],
            "assignments": [
                assignment(0, "OK", 0), assignment(1, "UNOWNED", 1, planned_owner=None, observed_owners=[]),
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
                delivery("one", "PENDING", 7),
                delivery("two", "NO_ROUTE", 7, receiver="*"),
                delivery("hid", "PENDING", 7),
            ],
        },
        {
            "alerts": [alert("one", "RESOLVED", 65)],
            "assignments": [assignment(0, "DOUBLE_CONSUMED", 60, observed_owners=["A@1 at 1:5", "A@1 at 2:5"])],
            "memberships": [member("A@1", "LEFT", 60)],
            "fault_items": [fault("P@1", 60, available=True)],
            "alert_deliveries": [delivery("one", "DELIVERED", 8)],
        },
    )  # fmt: skip


FORMS = {
    "alerts": "{alert_id}:{state}",
    "assignments": "{topic}/{queue_id}:{verdict}",
    "members": "{client_id}:{change}",
    "faults": "{client_id}:{available}",
    "deliveries": "{incident_id}:{outcome}",
}
"""What is compared of a row."""


def found_by(warehouse: Path, command: str) -> str:
    name, *options = command.split()
    return " ".join(FORMS[name].format(**row) for row in rows_of(warehouse, name, *options))


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("alerts --history", "one:FIRING two:FIRING one:RESOLVED"),
        ("alerts --history --severity critical --kind starved_queue --limit 1", "one:RESOLVED"),
        ("alerts --current", "two:FIRING one:RESOLVED"),
        ("alerts --current --state firing", "two:FIRING"),
        (f"alerts --at {AT}", "one:FIRING two:FIRING"),
        (f"alerts --at {AT} --state RESOLVED", ""),
        ("alerts --since 2025-06-15T15:06:46Z", "two:FIRING one:RESOLVED"),
        ("alerts --since 2025-06-15T15:06:46Z --until 2025-06-15T15:06:46Z", "two:FIRING"),
        ("alerts --current --until 2025-06-15T15:06:46Z", "two:FIRING"),
        ("alerts --history --state FIRING,RESOLVED --group billing", "one:FIRING one:RESOLVED"),
        ("alerts --cluster prod-*", "two:FIRING"),
        ("alerts --history --cluster *_canary", "hid:FIRING"),
        ("alerts --broker broker-c", "two:FIRING"),
        ("alerts --history --broker broker-a", "one:FIRING one:RESOLVED"),
        ("alerts --broker broker", ""),
        ("alerts --kind broker_*", "two:FIRING"),
        ("alerts --kind starved_queue,broker_isolated --current", "two:FIRING one:RESOLVED"),
        ("alerts --history --limit 1", "one:RESOLVED"),
        ("assignments", "orders-eu/0:OK orders/0:OK orders/1:UNOWNED orders/0:DOUBLE_CONSUMED"),
        ("assignments --current", "orders-eu/0:OK orders/1:UNOWNED orders/0:DOUBLE_CONSUMED"),
        ("assignments --current --state OK,UNOWNED", "orders-eu/0:OK orders/1:UNOWNED"),
        (f"assignments --at {AT} --group billing", "orders/0:OK orders/1:UNOWNED"),
        ("assignments --topic orders-?? --broker broker-[ab]", "orders-eu/0:OK"),
        (f"assignments --cluster {CANARY_CLUSTER}", "orders/0:OK"),
        ("members", "A@1:JOINED B@1:JOINED A@1:LEFT"),
        ("members --current --state joined,changed", "B@1:JOINED"),
        ("members --current", "B@1:JOINED"),
        ("members --current --state left", "A@1:LEFT"),
        (f"members --at {AT}", "A@1:JOINED B@1:JOINED"),
        ("members --at 2025-06-15T15:08:40Z", "B@1:JOINED"),
        ("members --topic orders*", "A@1:JOINED B@1:JOINED A@1:LEFT"),
        ("members --topic payments", "B@1:JOINED"),
        ("members --client A*", "A@1:JOINED A@1:LEFT"),
        ("faults", "P@1:False Q@1:True P@1:True"),
        ("faults --state unavailable", "P@1:False"),
        (f"faults --at {AT} --broker broker-b --client P@1", "P@1:False"),
        ("faults --current --state unavailable", ""),
        ("deliveries", "one-1:PENDING two-1:NO_ROUTE one-1:DELIVERED"),
        ("deliveries --state pending", "one-1:PENDING"),
        ("deliveries --current", "two-1:NO_ROUTE one-1:DELIVERED"),
        ("deliveries --current --state PENDING,RETRYING", ""),
        ("deliveries --at 2025-06-15T15:06:47Z --state PENDING", "one-1:PENDING"),
        ("deliveries --at 2025-06-15T15:06:48Z --state PENDING", ""),
        ("deliveries --cluster prod-1", "two-1:NO_ROUTE"),
        ("deliveries --group billing --receiver pag*", "one-1:PENDING one-1:DELIVERED"),
        ("deliveries --incident one --topic orders", "one-1:PENDING one-1:DELIVERED"),
        ("deliveries --broker broker-b", "two-1:NO_ROUTE"),
    ],
)  # fmt: skip
def test_the_options_say_which_rows(warehouse: Path, command: str, found: str) -> None:
    assert found_by(warehouse, command) == found


def test_each_format_has_its_values(warehouse: Path) -> None:
    """JSON has every column, times in ISO 8601 and evidence as an object; CSV has lists as words."""
    row = rows_of(warehouse, "assignments", "--limit", "1")[0]
    assert row == assignment(0, "DOUBLE_CONSUMED", 60, observed_owners=["A@1 at 1:5", "A@1 at 2:5"]) | {
        "since": "2025-06-15T15:07:40.000Z",
        "changed_at": "2025-06-15T15:07:40.000Z",
        "verdict_reason": None,
        "batch_id": 1,
    }
    assert rows_of(warehouse, "deliveries", "--limit", "1")[0]["consumer_group"] == "billing"
    row = rows_of(warehouse, "alerts", "--history", "--kind", "starved_queue")[0]
    assert (row["changed_at"], row["evidence"]) == ("2025-06-15T15:06:45.000Z", {"client_addr": "10.0.0.1:5"})
    assert row["queues"] == ["broker-a:0", "broker-a:1"]
    rows = list(csv.DictReader(io.StringIO(run(warehouse, "alerts", "--history", "--format", "csv").stdout)))
    assert rows[0]["queues"] == "broker-a:0 broker-a:1"
    assert {"inhibited_by", "started_at", "batch_id"} <= rows[0].keys()
    result = run(warehouse, "faults", "--cluster", "none", "--format", "csv")
    assert result.stdout.splitlines()[0].startswith("cluster,broker_name,client_id")
    assert len(result.stdout.splitlines()) == 1
    assert rows_of(warehouse, "faults", "--cluster", "none") == []
    rows = csv.DictReader(io.StringIO(run(warehouse, "assignments", "--format", "csv").stdout))
    assert [row["observed_owners"] for row in rows][-1] == "A@1 at 1:5 A@1 at 2:5"
    result = run(warehouse, "faults", "--format", "parquet")
    table = pq.read_table(pa.BufferReader(result.stdout_bytes))
    assert table.num_rows == 3
    assert table.schema.field("changed_at").type.unit == "us"
    assert table.schema.field("changed_at").type.tz is not None
    assert rows_of(warehouse, "assignments", "--group", "' OR 1 = 1 --") == []
    assert rows_of(warehouse, "alerts", "--topic", "$canary") == []


def test_an_alert_with_unreadable_json_hides_no_other(tmp_path: Path) -> None:
    texts = ("{", "[1]", "null", "7", "", "[" * 100_000)
    bad = [alert(f"bad-{number}", "FIRING", 5, evidence=text, labels=text) for number, text in enumerate(texts)]
    rows = rows_of(write(tmp_path, {"alerts": [*bad, alert("good", "FIRING", 6)]}), "alerts")
    assert [(row["evidence"], row["labels"]) for row in rows] == [({}, {})] * 6 + [({"client_addr": "10.0.0.1:5"}, {})]


def test_bytes_do_not_go_to_a_terminal(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.terminal.format_option.is_terminal", lambda: True)
    result = run(warehouse, "faults", "--format", "parquet")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--output parquet writes bytes: redirect them to a file" in result.stderr


@pytest.mark.parametrize(
    ("command", "noted"),
    [
        ("alerts --history --group biling", "no such group: 'biling'; nearest: billing"),
        ("assignments --topic order", "no such topic: 'order'; nearest: orders, orders-eu"),
        ("members --topic payment", "no such topic: 'payment'; nearest: payments"),
        ("faults --broker broker-d", "no such broker: 'broker-d'; nearest: broker-c, broker-b, broker-a"),
        ("deliveries --cluster prod", "no such cluster: 'prod'; nearest: prod-1"),
        ("alerts --history --group audit", ""),
        ("alerts --history --group bil* --state PENDING", ""),
        ("members --broker broker-b", ""),
    ],
)
def test_a_name_that_no_table_has_is_noted_with_the_nearest(warehouse: Path, command: str, noted: str) -> None:
    """Not one that is known and has no row here."""
    result = run(warehouse, *command.split())
    assert (result.exit_code, "matches." in result.stdout) == (0, True)
    assert result.stderr == (f"note: {noted}\n" if noted else "")


def test_tables_have_ids_for_acknowledging_and_the_local_time_beside_utc(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, zone: Callable[[str], None]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    printed = run(warehouse, "alerts", "--current", "--state", "FIRING").stdout
    assert "two-1" in printed
    assert "critical" in printed
    monkeypatch.setenv("COLUMNS", "160")
    zone("Europe/Berlin")
    result = run(warehouse, "assignments", "--state", "DOUBLE_CONSUMED", "--at", "17:08:00")
    assert "2025-06-15 15:07:40 │ 17:07:40" in run(warehouse, "assignments", "--state", "DOUBLE_CONSUMED").stdout
    assert "note: as of" in result.stderr
    assert "UTC (17:08:00 CE" in result.stderr
    assert "17:06:45 CEST" in run(warehouse, "alerts", "--history").stdout
    zone("UTC")
    assert "17:07:40" not in run(warehouse, "assignments").stdout


def test_what_a_limit_cuts_off_is_said(tmp_path: Path) -> None:
    write(tmp_path, {"assignments": [assignment(queue, "OK", queue) for queue in range(TABLE_ROWS + 1)]})
    result = run(tmp_path, "assignments")
    assert f"note: only the newest {TABLE_ROWS} rows; --limit 0 prints all" in result.stderr
    assert "broker-a:0 " not in result.stdout
    assert "note" not in run(tmp_path, "assignments", "--limit", "0").stderr
    assert len(rows_of(tmp_path, "assignments")) == TABLE_ROWS + 1
    assert [row["queue_id"] for row in rows_of(tmp_path, "assignments", "--limit", "2")] == [TABLE_ROWS - 1, TABLE_ROWS]
    for limit, exit_code in ((MOST_ROWS, 0), (MOST_ROWS + 1, 2)):
        assert run(tmp_path, "assignments", "--limit", str(limit)).exit_code == exit_code


def test_each_local_time_has_the_zone_of_its_own_season(
    tmp_path: Path, zone: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the season is today; London's winter is UTC, and its column is there for the summer's rows."""
    monkeypatch.setenv("COLUMNS", "200")
    half_a_year = 182 * 86_400
    write(tmp_path, {"assignments": [assignment(0, "OK", 0), assignment(1, "OK", half_a_year)]})
    for zone_name in ("Europe/London", "Europe/Berlin", "Australia/Sydney", "America/New_York"):
        zone(zone_name)
        reported = run(tmp_path, "assignments").stdout
        assert "changed at, local" in reported
        for second in (0, half_a_year):
            local = datetime.fromtimestamp(START_MS // 1000 + second, ZoneInfo(zone_name))
            assert (f"{local:%H:%M:%S %Z}" in reported) == (local.utcoffset() != timedelta(0)), zone_name
    zone("UTC")
    assert "local" not in run(tmp_path, "assignments").stdout


@pytest.mark.parametrize("command", ["alerts", "assignments", "members", "faults"])
def test_what_is_so_now_is_noted_to_be_old_where_no_row_is_new(warehouse: Path, command: str) -> None:
    reported = "note: newest row 2025-06-15 15:07:45 UTC, "
    result = run(warehouse, command, "--current", "--format", "json")
    assert reported in result.stderr
    assert " old; is `run` up?" in result.stderr
    assert "note: newest row" not in run(warehouse, command, "--at", "2025-06-15T15:18:45Z").stderr
    assert reported in run(warehouse, command, "--at", "2025-06-15T15:18:46Z").stderr
    assert "note: newest row" not in run(warehouse, command, "--since", "2025-06-15").stderr


def test_rows_of_one_moment_come_by_their_key_however_many_are_asked_for(tmp_path: Path) -> None:
    rows = [assignment(queue, "OK", 0, topic=topic) for topic in ("b", "a") for queue in (3, 1, 2)]
    write(tmp_path, {"assignments": rows})
    everything = ["a/1:OK", "a/2:OK", "a/3:OK", "b/1:OK", "b/2:OK", "b/3:OK"]
    for limit in (1, 2, 3, 0):
        assert found_by(tmp_path, f"assignments --limit {limit}").split() == everything[-limit:]


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("alerts --state burning", "--state 'BURNING': nearest: FIRING; choose one of PENDING,"),
        ("assignments --state ok,bad", "--state 'BAD': choose one of OK, UNOWNED"),
        ("assignments --state STARVED", "--state 'STARVED': choose one of OK, UNOWNED, NOT_CONSUMED"),
        ("alerts --kind starved", "--kind 'starved': nearest: starved_queue"),
        ("alerts --kind broker_isolated,starved_que", "--kind 'starved_que': nearest: starved_queue"),
        ("alerts --kind $canary", "--kind '$canary': nearest: canary_lost; choose one of starved_queue"),
        ("faults --state ,", "--state ',': choose one of AVAILABLE, UNAVAILABLE"),
        ("members --since soon", "--since 'soon' is not a time; use 90s"),
        ("members --until 25:00", "--until '25:00' is not a time"),
        ("alerts --at 2h --since 3h", "--at excludes --since, --until and --current"),
        ("alerts --at 2h --current", "--at excludes"),
        ("alerts --history --current", "--history excludes --current and --at"),
        ("alerts --follow --until 1h", "--follow excludes"),
        ("alerts --severity critcal", "--severity 'critcal': nearest: critical; choose one of critical, error"),
        ("faults --since 1h --until 2h", "--since 1h is not before --until 2h"),
        ("deliveries --format xml", "--output 'xml': choose table, wide, json, csv or parquet"),
        ("faults --at 2999-01-01", "--at 2999-01-01 is in the future (2999-01-01 00:00:00 UTC"),
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
    ("command", "sentence"),
    [
        ("run", "kafka.bootstrap_servers is empty"),
        ("collect --bootstrap-servers x:1", "collector.name_server is empty"),
        ("simulate no_such --bootstrap-servers x:1", "no_such"),
        ("simulate --bootstrap-servers x:1 --speed fast", "--speed 'fast'"),
        ("demo --scenario no_such", "no_such"),
    ],
)
def test_a_command_that_cannot_start_names_the_option(
    command: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "command", ["alerts", "assignments", "members", "faults", "deliveries", "owner t b:1", "explain"]
)
def test_a_warehouse_that_is_not_there_ends_with_1_and_names_the_setting(tmp_path: Path, command: str) -> None:
    result = run(tmp_path / "nowhere", *command.split())
    assert result.exit_code == 1
    assert "paths.warehouse = " in result.stderr
    assert " found; has `balancewatch run` written here?" in result.stderr


def test_globs_mean_what_they_mean_in_the_rules(tmp_path: Path) -> None:
    names = ["prod-1", "prod-22", "a", "b", "abc", "axxbz", "", "Prod-1", "a%b_", "prod-1\n"]
    write(tmp_path, {"assignments": [assignment(n, "OK", n, consumer_group=name) for n, name in enumerate(names)]})
    for pattern in ("prod-*", "?", "[ab]*", "[!a]*", "*-1", "a*b?", "prod-1", "*"):
        found = [row["consumer_group"] for row in rows_of(tmp_path, "assignments", "--group", pattern)]
        assert found == [name for name in names if fnmatchcase(name, pattern)], pattern


def test_the_deliveries_of_the_beginning_and_the_end_of_an_incident_have_their_own_newest_row(tmp_path: Path) -> None:
    end = {"state": "RESOLVED", "status": "resolved"}
    write(
        tmp_path,
        {"alert_deliveries": [delivery("one", "PENDING", 7)]},
        {"alert_deliveries": [delivery("one", "RETRYING", 8, attempt=1)]},
        {"alert_deliveries": [delivery("one", "DELIVERED", 9, attempt=2), delivery("one", "PENDING", 9, **end)]},
    )
    rows = rows_of(tmp_path, "sql", "FROM alert_deliveries_now ORDER BY delivered_at, state")
    assert [(row["incident_id"], row["state"], row["outcome"], row["attempt"]) for row in rows] == [
        ("one-1", "FIRING", "DELIVERED", 2),
        ("one-1", "RESOLVED", "PENDING", 0),
    ]


def test_sql_prints_answers_of_arguments_files_and_stdin_in_every_form(warehouse: Path, tmp_path: Path) -> None:
    """Columns of one name are numbered; without SQL it lists the views."""
    question = "SELECT verdict, count(*) AS a, max(changed_at) AS newest, 2 AS a, 3 AS a_1 FROM assignments_now"
    question += " GROUP BY verdict ORDER BY 1"
    row = {"verdict": "DOUBLE_CONSUMED", "a": 1, "newest": "2025-06-15T15:07:40.000Z", "a_2": 2, "a_1": 3}
    assert rows_of(warehouse, "sql", question)[0] == row
    printed = run(warehouse, "sql", question, "--format", "csv").stdout.splitlines()
    assert printed[:2] == [",".join(row), ",".join(map(str, row.values()))]
    table = run(warehouse, "sql", question, "--limit", "1")
    assert {"DOUBLE_CONSUMED", "a_2"} <= set(table.stdout.split())
    assert "UNOWNED" not in table.stdout
    assert "note: only the first 1 row; --limit 0 prints all" in table.stderr
    parquet = pq.read_table(pa.BufferReader(run(warehouse, "sql", question, "--format", "parquet").stdout_bytes))
    assert (parquet.num_rows, parquet.column_names) == (3, list(row))
    file = tmp_path / "question.sql"
    file.write_text("SELECT 1 AS a")
    assert rows_of(warehouse, "sql", "-f", str(file)) == [{"a": 1}]
    arguments = ["sql", "-", "--warehouse", str(warehouse), "--format", "json"]
    assert json.loads(CliRunner().invoke(app, arguments, input="SELECT 2 AS a").stdout) == [{"a": 2}]
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
