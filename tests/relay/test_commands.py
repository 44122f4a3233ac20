"""relay, silence and ack as commands: what they print, write and refuse; no JVM, no network."""

import json
import shlex
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from streaming.cli import app
from streaming.relay.tables import RelayTables
from streaming.warehouse.writer import append_rows
from tests.relay.stage import START_MS, alert_row
from tests.relay.vendors import ROUTING_KEY, FakePagerDuty
from tests.support.row_writer import RowWriter


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What each test has a copy of."""
    root = tmp_path_factory.mktemp("alerted")
    rows = [
        alert_row("open", "FIRING", START_MS),
        alert_row("mild", "FIRING", START_MS, severity="info", consumer_group="orders"),
        alert_row("explained", "FIRING", START_MS, inhibited_by="open-1"),
        alert_row("over", "FIRING", START_MS),
        alert_row("over", "RESOLVED", START_MS + 5),
    ]
    append_rows(RowWriter(root), {"alerts": rows}, "app", 0)
    return root


@pytest.fixture
def warehouse(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BALANCEWATCH_PATHS__CHECKPOINTS", str(tmp_path / "checkpoints"))
    return shutil.copytree(filled, tmp_path, dirs_exist_ok=True)


@pytest.fixture
def pager(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakePagerDuty]:
    """PagerDuty takes what is critical, the log the rest."""
    with FakePagerDuty() as vendor:
        config = tmp_path / "site.toml"
        config.write_text(
            f"""
            [[oncall.receivers]]
            name = "pager"
            type = "pagerduty"
            routing_key_env = "PD_KEY"
            url = "{vendor.url}"
            [[oncall.receivers]]
            name = "log"
            type = "log"
            [[oncall.routes]]
            name = "bad"
            match = {{ severity = "critical" }}
            receivers = ["pager"]
            [[oncall.routes]]
            name = "rest"
            receivers = ["log"]
            """
        )
        monkeypatch.setenv("BALANCEWATCH_CONFIG", str(config))
        monkeypatch.setenv("PD_KEY", ROUTING_KEY)
        yield vendor


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    return result


def rows_of(*arguments: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(run(*arguments, "--format", "json").stdout)
    return rows


def planned_rows(warehouse: Path) -> list[dict[str, Any]]:
    return rows_of("relay", "--dry-run", "--warehouse", str(warehouse))


def add_silence(warehouse: Path, *arguments: str) -> list[dict[str, Any]]:
    return rows_of("silence", "add", "--warehouse", str(warehouse), "--owner", "ada", "--reason", "release", *arguments)


def test_a_dry_run_says_who_would_be_notified_what_and_why_and_sends_and_writes_nothing(
    warehouse: Path, pager: FakePagerDuty
) -> None:
    before = sorted(warehouse.rglob("*"))
    rows = rows_of("relay", "--dry-run", "--warehouse", str(warehouse))
    assert [(row["incident_id"].split("-")[0], row["receiver"], row["route"], row["why"]) for row in rows] == [
        ("open", "pager", "bad", "pending"),
        ("mild", "log", "info is only logged", "pending"),
        ("explained", "*", "", "not notified: inhibited by open-1"),
    ]
    assert sorted(warehouse.rglob("*")) == before
    assert pager.received == []


def test_a_dry_run_works_on_a_warehouse_that_no_relay_has_seen(tmp_path: Path, pager: FakePagerDuty) -> None:
    writer = RowWriter(tmp_path / "full")
    append_rows(writer, {"alerts": [alert_row("open", "FIRING", START_MS)]}, "app", 0)
    (tmp_path / "full" / "alerts").rename(tmp_path / "alerts")
    rows = rows_of("relay", "--dry-run", "--warehouse", str(tmp_path))
    assert [row["receiver"] for row in rows] == ["pager"]
    assert not (tmp_path / "alert_deliveries").exists()


def test_once_delivers_what_is_due_and_a_second_time_nothing(warehouse: Path, pager: FakePagerDuty) -> None:
    for _ in range(2):
        run("relay", "--once", "--warehouse", str(warehouse))
    assert pager.counts("dedup_key") == {f"open-{START_MS}": 1}
    planned = rows_of("relay", "--dry-run", "--warehouse", str(warehouse))
    assert [row["why"] for row in planned] == ["not notified: inhibited by open-1"]


def test_once_ends_with_1_and_a_sentence_when_a_receiver_is_not_reached(warehouse: Path, pager: FakePagerDuty) -> None:
    pager.close()
    result = run("relay", "--once", "--warehouse", str(warehouse), code=1)
    assert "1 notification is still pending for pager" in result.stderr


def test_an_acknowledgement_reaches_pagerduty(warehouse: Path, pager: FakePagerDuty) -> None:
    run("relay", "--once", "--warehouse", str(warehouse))
    said = run("ack", f"open-{START_MS}", "--owner", "ada", "--note", "on it", "--warehouse", str(warehouse))
    assert said.stdout.startswith(f"open-{START_MS} acknowledged by ada: Nobody consumes open.")
    for _ in range(2):
        run("relay", "--once", "--warehouse", str(warehouse))
    assert [call.fields["event_action"] for call in pager.received] == ["trigger", "acknowledge"]


def test_a_prefix_of_the_id_is_enough_to_acknowledge_the_open_incident(warehouse: Path) -> None:
    """Of several incidents with the prefix the only open one is meant: `explain` and `ack` find the same."""
    later = [alert_row("over", "FIRING", START_MS + 10, incident_id="over-2")]
    append_rows(RowWriter(warehouse), {"alerts": later}, "app", 1)
    said = run("ack", "over", "--owner", "ada", "--note", "on it", "--warehouse", str(warehouse))
    assert said.stdout.startswith("over-2 acknowledged by ada: ")
    story = run("explain", "over", "--warehouse", str(warehouse)).stdout
    assert "incident: over-2" in story
    assert "ada  on it" in story


def test_an_acknowledgement_that_is_repeated_within_a_minute_adds_nothing(warehouse: Path) -> None:
    def said(note: str) -> str:
        return run("ack", "open", "--owner", "ada", "--note", note, "--warehouse", str(warehouse)).stdout

    beginnings = [said(note).partition(" by ada: ")[0] for note in ("on it", "on it", "restarting it")]
    acknowledged, already = f"open-{START_MS} acknowledged", f"open-{START_MS} is already acknowledged"
    assert beginnings == [acknowledged, already, acknowledged]
    rows = RelayTables(warehouse, may_write=False).read_acknowledgements() or []
    assert sorted(row["note"] for row in rows) == ["on it", "restarting it"]


def test_a_new_silence_is_printed_with_the_command_that_ends_it(warehouse: Path) -> None:
    arguments = ("--match", "kind=starved_*", "--for", "2h", "--owner", "ada", "--reason", "release")
    said = run("silence", "add", "--warehouse", str(warehouse), *arguments).stdout
    run("silence", "end", said.split("`balancewatch silence end ")[1].split("`")[0], "--warehouse", str(warehouse))


def test_a_silence_is_added_listed_obeyed_and_ended(warehouse: Path, pager: FakePagerDuty) -> None:
    (added,) = add_silence(warehouse, "--match", "consumer_group=bill*", "--for", "2h")
    assert (added["state"], added["match"], added["covers_now"]) == ("active", "consumer_group=bill*", 2)
    listed = rows_of("silence", "list", "--warehouse", str(warehouse))
    assert [(row["silence_id"], row["created_by"], row["comment"]) for row in listed] == [
        (added["silence_id"], "ada", "release")
    ]
    run("relay", "--once", "--warehouse", str(warehouse))
    assert pager.received == []
    planned = rows_of("relay", "--dry-run", "--warehouse", str(warehouse))
    assert sorted((row["incident_id"].split("-")[0], row["why"]) for row in planned) == [
        ("explained", "not notified: inhibited by open-1"),
        ("open", f"not notified: silenced by {added['silence_id']}"),
    ]
    run("silence", "end", added["silence_id"], "--warehouse", str(warehouse))
    assert rows_of("silence", "list", "--warehouse", str(warehouse)) == []
    assert [row["state"] for row in rows_of("silence", "list", "--all", "--warehouse", str(warehouse))] == ["ended"]
    run("relay", "--once", "--warehouse", str(warehouse))
    assert pager.counts("dedup_key") == {f"open-{START_MS}": 1}


def test_a_mute_that_is_open_is_listed_obeyed_and_explained_with_the_end_of_its_window(
    warehouse: Path, pager: FakePagerDuty, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    times = {"from": f"{now - timedelta(hours=1):%H:%M}", "to": f"{now + timedelta(hours=1):%H:%M}"}
    mute = {"name": "release day", "match": {"severity": "critical", "consumer_group": "bill*"}, **times}
    monkeypatch.setenv("BALANCEWATCH_MUTES", json.dumps([mute]))
    (listed,) = rows_of("silence", "list", "--warehouse", str(warehouse))
    why = f"mute 'release day' until {now + timedelta(hours=1):%Y-%m-%dT%H:%M}+00:00"
    assert (listed["silence_id"], listed["state"], listed["created_by"]) == (why, "active", "[[mutes]]")
    planned = {row["incident_id"].split("-")[0]: row["why"] for row in planned_rows(warehouse)}
    assert planned == {
        "explained": "not notified: inhibited by open-1",
        "mild": "pending",
        "open": f"not notified: silenced by {why}",
    }
    run("relay", "--once", "--warehouse", str(warehouse))
    assert pager.received == []
    story = " ".join(run("explain", f"open-{START_MS}", "--warehouse", str(warehouse)).stdout.split())
    assert f"SILENCED no receiver firing: {why}" in story
    monkeypatch.delenv("BALANCEWATCH_MUTES")
    assert rows_of("silence", "list", "--warehouse", str(warehouse)) == []
    run("relay", "--once", "--warehouse", str(warehouse))
    assert pager.counts("dedup_key") == {f"open-{START_MS}": 1}


def test_a_dry_run_of_a_silence_lists_what_it_would_cover_and_adds_nothing(warehouse: Path) -> None:
    covered = add_silence(warehouse, "--match", "severity=critical,error", "--for", "1h", "--dry-run")
    assert {row["incident_id"].split("-")[0] for row in covered} == {"open", "explained"}
    assert RelayTables(warehouse).read_silences() == []


def test_a_prefix_of_the_id_is_enough_to_silence_incidents_like_it(warehouse: Path) -> None:
    """The silence covers the incident's kind in its cluster and group, and narrows with further matchers."""
    (added,) = add_silence(warehouse, "open", "--match", "severity=critical", "--for", "2h")
    assert added["match"] == "cluster=prod consumer_group=billing kind=starved_queue severity=critical"
    covered = add_silence(warehouse, "mild", "--for", "2h", "--dry-run")
    assert [row["incident_id"] for row in covered] == [f"mild-{START_MS}"]


def test_a_silence_lasts_until_the_moment_given(warehouse: Path) -> None:
    until = datetime.now(UTC).replace(microsecond=0, year=datetime.now(UTC).year).timestamp() + 3600
    text = datetime.fromtimestamp(until, UTC).isoformat()
    (added,) = add_silence(warehouse, "--match", "cluster=*", "--until", text)
    assert added["ends_at"] == text.replace("+00:00", "Z")


ADD = "silence add --owner a --reason b"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (f"{ADD} --for 2h", 2, "give an INCIDENT or at least one --match"),
        (f"{ADD} --match cluster=*", 2, "give either --for"),
        (f"{ADD} --match cluster=* --for '2 hours'", 2, "--for '2 hours' is not a duration"),
        (f"{ADD} --match cluster=* --until 2020-01-01", 2, "--until 2020-01-01: must end within the next 366 days"),
        (f"{ADD} --match clutser=* --for 2h", 2, "'clutser=*': 'clutser' is not a label; choose kind, severity"),
        (f"{ADD} --owner ' ' --match cluster=* --for 2h", 2, "--owner ' ': give 1 to 1000 characters"),
        (f"{ADD} --match kind=group_offlin --for 2h", 2, "--match kind= 'group_offlin': nearest: group_offline"),
        (f"{ADD} --match severity=info,critcal --for 2h", 2, "--match severity= 'critcal': nearest: critical"),
        (f"{ADD} --for 2h nope", 1, "INCIDENT 'nope' is not in the alerts table"),
        ("silence end nope", 1, "SILENCE_ID 'nope' does not exist"),
        ("ack nope --owner a --note b", 1, "INCIDENT 'nope' is not in the alerts table; known: "),
        (f"ack over-{START_MS} --owner a --note b", 1, "was resolved at 2026"),
        ("relay --dry-run --format yaml", 2, "--output 'yaml': choose table, json or csv"),
        ("relay --dry-run --once", 2, "give --dry-run or --once, not both"),
    ],
)
def test_what_cannot_work_ends_in_a_sentence(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, code: int, sentence: str
) -> None:
    monkeypatch.setenv("BALANCEWATCH_PATHS__WAREHOUSE", str(warehouse))
    result = run(*shlex.split(arguments), code=code)
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(("given", "missing"), [("--owner", "--reason"), ("--reason", "--owner")])
def test_a_silence_without_owner_or_reason_is_wrong_usage(given: str, missing: str) -> None:
    result = run("silence", "add", "--match", "cluster=*", "--for", "2h", given, "a", code=2)
    assert f"Missing option '{missing}'" in result.stderr


@pytest.mark.parametrize("command", [["relay", "--dry-run"], ["relay", "--once"], ["relay"], ["run"]], ids=" ".join)
def test_a_missing_secret_stops_the_start(
    warehouse: Path, pager: FakePagerDuty, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.delenv("PD_KEY")
    monkeypatch.setenv("BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:1")
    result = run(*command, "--warehouse", str(warehouse), code=2)
    assert (
        "oncall.receivers[0].routing_key_env = 'PD_KEY': the environment variable PD_KEY is empty or not set"
        in result.stderr
    )


def test_a_warehouse_without_alerts_is_notified_by_its_setting(tmp_path: Path, pager: FakePagerDuty) -> None:
    result = run("relay", "--dry-run", "--warehouse", str(tmp_path / "none"), code=1)
    assert "no table alerts found" in result.stderr
