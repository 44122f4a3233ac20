"""What `check` says of the settings, and `alerts rules` of an alert that somebody imagines, and of one that is."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from streaming.check import check_command
from streaming.relay.tables import RelayTables
from streaming.text.times import to_ms
from tests.check.checking import answer, call, check, judge, move_to_site, write
from udfs.alerts.kinds import KIND_FACTS
from udfs.alerts.self_kinds import SELF_FACTS
from udfs.alerts.silence import Silence

RULES = """
settle_ms = 1000
[kinds.split_view]
pending_evaluations = 7
[[overrides]]
name = "batch jobs"
consumer_group = "batch-*"
pull_silence_ms = 120_000
kinds.starved_queue = { pending_ms = 60_000, severity = "info" }
kinds."*" = { recovering_ms = 5_000 }
[[overrides]]
cluster = "test"
kinds.starved_queue = { is_enabled = false }
"""

SITE = """
[rules]
heartbeat_late_ms = 60_000
[[oncall.receivers]]
name = "log"
type = "log"
[[oncall.receivers]]
name = "duty"
type = "pagerduty"
routing_key_env = "DUTY_KEY"
[[oncall.routes]]
name = "loud"
match = { severity = ["critical", "error"] }
receivers = ["duty"]
[[oncall.routes]]
name = "rest"
receivers = ["log"]
"""


@pytest.fixture(autouse=True)
def _a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    move_to_site(tmp_path, monkeypatch, SITE)
    (tmp_path / "rules.toml").write_text(RULES)
    monkeypatch.setenv("DUTY_KEY", "k" * 32)


@pytest.fixture
def rules(tmp_path: Path) -> list[str]:
    return ["--rules", str(tmp_path / "rules.toml")]


def keys(found: dict[str, Any]) -> dict[str, tuple[Any, str]]:
    return {row["key"]: (row["value"], row["set_by"]) for row in found["keys"]}


def starved(group: str = "billing", cluster: str = "prod") -> list[str]:
    return ["starved_queue", "--cluster", cluster, "--group", group]


def test_the_rules_in_force_are_reported_with_who_set_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: list[str]
) -> None:
    monkeypatch.setenv("BALANCEWATCH_RULES__MAX_EVALUATION_GAP_MS", "5000")
    found = answer(check, *rules)
    reported = keys(found)
    assert reported["rules.settle_ms"] == (1_000, str(tmp_path / "rules.toml"))
    assert reported["rules.heartbeat_late_ms"] == (60_000, str(tmp_path / "site.toml"))
    assert reported["rules.max_evaluation_gap_ms"] == (5_000, "BALANCEWATCH_RULES__MAX_EVALUATION_GAP_MS")
    assert reported["rules.pull_silence_ms"] == (45_000, "default")
    assert reported["rules.kinds.split_view.pending_evaluations"] == (7, str(tmp_path / "rules.toml"))
    assert [one["name"] for one in found["overrides"]] == ["batch jobs", "rules.overrides[1]"]
    assert found["overrides"][0]["sets"]["kinds.starved_queue.pending_ms"] == 60_000
    assert found["receivers"] == ["log", "duty"]


def test_the_settings_as_a_table_say_that_they_are_valid(rules: list[str]) -> None:
    result = check(*rules)
    assert result.exit_code == 0
    assert "The settings are valid." in result.stdout
    assert "override 'batch jobs': cluster *, consumer_group batch-*" in result.stdout


def test_a_secret_that_is_missing_is_reported_and_one_that_is_there_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "k" * 32 not in check().output
    monkeypatch.delenv("DUTY_KEY")
    result = check()
    assert result.exit_code == 2
    assert "routing_key_env = 'DUTY_KEY'" in result.stderr
    assert judge(*starved()).exit_code == 0, "what an alert would do needs no secret"


@pytest.mark.parametrize(
    ("command", "reported"),
    [
        ("alerts rules starved", "kind 'starved' is unknown; nearest: starved_queue"),
        ("alerts rules broker_isolated --cluster c --group g", "--group 'g': broker_isolated is about brokers"),
        ("alerts rules --cluster c", "Missing argument 'KIND|INCIDENT'"),
        ("alerts rules twins-1 --group g", "--group: an incident has its own; leave it out"),
        ("alerts rules starved_queue --severity loud", "--severity 'loud': choose critical, error, warning, info"),
        ("alerts rules starved_queue --format csv", "--output 'csv': choose table or json"),
        ("alerts rules starved_queue --rules /nowhere.toml", "rules.file = '/nowhere.toml': No such file"),
        ("alerts rules data_qualities", "kinds about balancewatch itself: alerts_limited, canary_lost, data_loss, "),
        ("alerts rules data_quality --group g", "--group 'g': data_quality is not about a consumer group"),
        ("alerts rules data_loss --topic t", "--topic 't': data_loss is not about a topic"),
        ("alerts --cluster c rules starved_queue", "--cluster before rules has no effect"),
        ("alerts starved_queue", "No such command 'starved_queue'"),
        ("check --format csv", "--output 'csv': choose table or json"),
        ("check --rules /nowhere.toml", "rules.file = '/nowhere.toml': No such file"),
        ("check --kind starved_queue", "No such option: --kind"),
        ("check a-1", "unexpected extra argument"),
    ],
)
def test_a_wrong_question_is_reported_and_ends_with_2(tmp_path: Path, command: str, reported: str) -> None:
    write(tmp_path, {"incident_id": "twins-1", "kind": "duplicate_client_id"})
    result = call(*command.split())
    assert result.exit_code == 2
    assert reported in result.stderr
    assert len(result.stderr.splitlines()) == 1 or "Usage: " in result.stderr


def test_without_a_cluster_the_general_rule_is_explained(tmp_path: Path, rules: list[str]) -> None:
    """Overrides, routes and labels of certain groups are left out, and the answer names the options that add them."""
    with (tmp_path / "site.toml").open("a") as site:
        site.write('[[labels]]\nmatch = { consumer_group = "bill*" }\nset = { team = "payments" }\n')
    general, of_group = answer(judge, *rules, "starved_queue"), answer(judge, *rules, *starved())
    assert (general["missing_options"], of_group["missing_options"]) == (["--cluster", "--group"], [])
    assert (general["static_labels"], of_group["static_labels"]) == ({}, {"team": "payments"})
    assert [one["route"] for one in general["receivers"]] == ["loud", "rest"]
    assert answer(judge, *rules, "starved_queue", "--cluster", "prod")["missing_options"] == ["--group"]
    assert answer(judge, "alerts_limited")["missing_options"] == ["--cluster"]
    assert answer(judge, "data_quality")["missing_options"] == []
    said = " ".join(judge("broker_isolated").stdout.replace("│", " ").split())
    assert "for any cluster; overrides, routes, labels, silences and mutes for certain ones may differ" in said
    assert "give --cluster" in said
    assert "team=payments" in judge(*starved()).stdout


def test_a_threshold_below_the_clients_own_intervals_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "low.toml"
    path.write_text(
        'settle_ms = "10s"\n[[overrides]]\nname = "batch"\nconsumer_group = "batch-*"\npull_silence_ms = 60\n'
        '[[overrides]]\nname = "fine"\nconsumer_group = "b-*"\npull_silence_ms = "1m"\n'
    )
    assert answer(check, "--rules", str(path))["warnings"] == [
        "rules: settle_ms = 10000 is below 20 s, but clients rebalance every 20 s",
        "override 'batch': pull_silence_ms = 60 is below 20 s, but an idle healthy queue is pulled every 15 to 20 s; "
        'the unit is ms, write "60s" for seconds',
    ]
    printed = check("--rules", str(path))
    assert "warning: override 'batch': pull_silence_ms = 60 is below 20 s" in " ".join(printed.stdout.split())
    assert printed.exit_code == 0
    assert answer(check)["warnings"] == []


def test_the_alerts_are_listed_as_ever_beside_what_they_would_do(tmp_path: Path) -> None:
    """Also where a value of an option is called as the command below is."""
    write(tmp_path, {"incident_id": "twins-1", "kind": "duplicate_client_id", "consumer_group": "rules"})
    for arguments in ([], ["--group", "rules"], ["--current", "--state", "FIRING"]):
        result = call("alerts", *arguments, "--format", "json")
        assert result.exit_code == 0, result.output
        assert [row["incident_id"] for row in json.loads(result.stdout)] == ["twins-1"]
    assert "No open incident matches." in call("alerts", "--group", "none").output


def test_an_imagined_alert_is_judged_by_its_groups_rules(tmp_path: Path, rules: list[str]) -> None:
    found = answer(judge, *rules, *starved("batch-night"))
    reported = keys(found)
    assert reported["rules.pull_silence_ms"] == (120_000, "override 'batch jobs'")
    assert reported["rules.settle_ms"] == (1_000, str(tmp_path / "rules.toml"))
    assert reported["rules.kinds.starved_queue.pending_ms"] == (60_000, "override 'batch jobs'")
    assert reported["rules.kinds.starved_queue.recovering_ms"] == (5_000, "override 'batch jobs', for all kinds")
    assert reported["rules.kinds.starved_queue.pending_evaluations"] == (2, "default, for all kinds")
    assert "pull_silence_ms (2 min)" in found["fires"]
    assert "for 1 min and at least 2 evaluations" in found["fires"]
    assert "RESOLVED after 5 s without it" in found["ends"]


def test_a_kind_that_is_switched_off_never_fires(rules: list[str]) -> None:
    assert answer(judge, *rules, *starved(cluster="test"))["fires"].startswith(
        "Never: kinds.starved_queue.is_enabled is false"
    )


def test_an_override_for_some_groups_is_not_reported_of_brokers(rules: list[str]) -> None:
    found = answer(judge, *rules, "broker_isolated", "--cluster", "prod")
    assert not [row for row in found["keys"] if "batch" in row["set_by"]]


def test_the_receivers_are_those_of_each_severity_it_may_have(rules: list[str]) -> None:
    found = answer(judge, *starved())
    assert [(one["severity"], one["receiver"], one["route"]) for one in found["receivers"]] == [
        ("critical", "duty", "loud"),
        ("warning", "log", "rest"),
    ]
    assert [one["receiver"] for one in answer(judge, *starved(), "--severity", "error")["receivers"]] == ["duty"]
    assert [one["route"] for one in answer(judge, *rules, *starved("batch-x"))["receivers"]] == ["info is only logged"]


def test_a_silence_that_covers_it_is_reported(tmp_path: Path) -> None:
    operator_input = RelayTables(tmp_path / "warehouse")
    operator_input.add_silence(Silence("s1", {"consumer_group": ("bill*",)}, "ann", "moving house", 0, 2**42), 1)
    assert {one["silence_id"] for one in answer(judge, *starved())["silences"]} == {"s1"}
    assert answer(judge, *starved("orders"))["silences"] == []


MUTES = """
[[mutes]]
name = "night"
match = { consumer_group = "bill*", severity = ["critical"] }
from = "22:00"
to = "06:00"
time_zone = "Asia/Shanghai"
[[mutes]]
match = { kind = "group_offline" }
days = ["sat"]
from = "09:00"
to = "17:00"
"""


@pytest.mark.parametrize(
    ("now", "is_open", "sentence"),
    [
        ("2026-07-01T15:00Z", True, "open until 2026-07-01 22:00:00 UTC"),
        ("2026-07-01T23:00Z", False, "next from 2026-07-02 14:00:00 UTC until 2026-07-02 22:00:00 UTC"),
    ],
)
def test_a_mute_that_matches_is_reported_with_its_window(
    now: str, is_open: bool, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By severity; whether it is open, and until when. One that matches nothing of it is not."""
    move_to_site(tmp_path, monkeypatch, MUTES + SITE)
    monkeypatch.setattr(check_command, "wall_ms", lambda: to_ms(datetime.fromisoformat(now)))
    monkeypatch.setenv("COLUMNS", "400")
    found = [(one["severity"], one["name"], one["is_open"]) for one in answer(judge, *starved())["mutes"]]
    assert found == [("critical", "night", is_open)]
    line = f"'night' (consumer_group=bill* severity=critical), 22:00 to 06:00 Asia/Shanghai, every day: {sentence}"
    assert f"critical: {line}" in judge(*starved()).stdout
    assert answer(judge, *starved("orders"))["mutes"] == []
    assert "no mute matches" in judge(*starved("orders")).stdout
    assert answer(judge, "watchdog")["mutes"] == []
    assert [one["name"] for one in answer(check)["mutes"]] == ["night", "kind=group_offline"]
    listed = check().stdout
    assert f"mute {line}" in listed
    assert "mute 'kind=group_offline' (kind=group_offline), 09:00 to 17:00 UTC, sat: next from 2026-07-04" in listed


def test_an_open_incident_that_may_explain_it_is_reported(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"incident_id": "twins-1", "kind": "duplicate_client_id", "consumer_group": "billing"},
        {"incident_id": "over-1", "kind": "split_view", "consumer_group": "billing", "state": "RESOLVED"},
        {"incident_id": "other-1", "kind": "split_view", "consumer_group": "orders"},
        {"incident_id": "broker-1", "kind": "broker_no_data"},
    )
    found = answer(judge, *starved())["inhibited_by"]
    assert [one["incident_id"] for one in found["may_be"]] == ["broker-1", "twins-1"]
    assert found["is"] is None


def test_an_incident_is_reported_with_its_state_its_receivers_and_what_suppresses_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"incident_id": "twins-1", "kind": "duplicate_client_id", "consumer_group": "billing", "summary": "Two of it."},
        {
            "incident_id": "starved-1",
            "kind": "starved_queue",
            "consumer_group": "billing",
            "topic": "orders",
            "inhibited_by": "twins-1",
        },
    )
    found = answer(judge, "starved-1")
    assert found["incident"]["state"] == "FIRING"
    assert found["inhibited_by"]["is"] == "twins-1"
    assert found["inhibited_by"]["summary"] == "Two of it."
    assert found["severities"] == ["critical"]
    assert [one["receiver"] for one in found["receivers"]] == ["duty"]
    table = judge("starved-1").stdout
    assert "twins-1, so it does not page: Two of it." in table


def test_a_prefix_of_an_incidents_id_is_enough_and_an_unknown_one_ends_with_1(tmp_path: Path) -> None:
    twins = {"incident_id": "3f1c2a9be07d4455-1700000000000", "kind": "duplicate_client_id", "state": "FIRING"}
    write(tmp_path, twins, {**twins, "incident_id": "3f1c77770000aaaa-1700000000000"})
    found = answer(judge, "3f1c2a9b")
    assert found["incident"]["incident_id"] == "3f1c2a9be07d4455-1700000000000"
    unknown = (("3f1c", "is a prefix of several: "), ("none-1", "is not in the alerts table"))
    for incident, reported in unknown:
        result = judge(incident)
        assert (result.exit_code, f"INCIDENT '{incident}' {reported}" in result.stderr) == (1, True)


def test_a_check_makes_no_table(tmp_path: Path) -> None:
    answer(check)
    answer(judge, *starved())
    assert not (tmp_path / "warehouse").exists()


def test_every_kind_has_an_answer_that_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for kind in (*KIND_FACTS, *SELF_FACTS):
        is_of_group = kind in KIND_FACTS and KIND_FACTS[kind].is_of_group
        result = judge(kind, "--cluster", "c", *(["--group", "g"] if is_of_group else []))
        assert result.exit_code == 0, result.output
        assert max(map(len, result.stdout.splitlines())) <= 80
        assert ("│ means" in result.stdout) == (kind in SELF_FACTS)
