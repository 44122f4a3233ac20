"""What `check` says: of the settings as a whole, of an alert that somebody imagines, and of one that is."""

from pathlib import Path
from typing import Any

import pytest

from streaming.oncall.ledger import Words
from streaming.queries.warehouse import DeltalakeWriter, append_rows
from tests.history.checking import answer, invoke, move_to_site
from udfs.kinds import KIND_FACTS
from udfs.silence import Silence

RULES = """
settle_ms = 1000
[kinds.split_view]
pending_looks = 7
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
    return ["--kind", "starved_queue", "--cluster", cluster, "--group", group]


def write(tmp_path: Path, *rows: dict[str, Any]) -> None:
    common = {
        "alert_id": "a",
        "cause": "frozen_client",
        "cluster": "prod",
        "severity": "critical",
        "state": "FIRING",
        "summary": "It is so.",
        "advice": "Do this.",
        "evidence": "{}",
        "started_at": 1_750_000_000_000,
        "changed_at": 1_750_000_001_000,
    }
    append_rows(DeltalakeWriter(tmp_path / "warehouse"), {"alerts": [{**common, **row} for row in rows]}, "app", 0)


def test_the_rules_in_force_are_told_with_who_set_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: list[str]
) -> None:
    monkeypatch.setenv("BALANCEWATCH_RULES__BLIND_MS", "5000")
    found = answer(*rules)
    told = keys(found)
    assert told["rules.settle_ms"] == (1_000, str(tmp_path / "rules.toml"))
    assert told["rules.heartbeat_late_ms"] == (60_000, str(tmp_path / "site.toml"))
    assert told["rules.blind_ms"] == (5_000, "BALANCEWATCH_RULES__BLIND_MS")
    assert told["rules.pull_silence_ms"] == (45_000, "default")
    assert told["rules.kinds.split_view.pending_looks"] == (7, str(tmp_path / "rules.toml"))
    assert [one["name"] for one in found["overrides"]] == ["batch jobs", "rules.overrides[1]"]
    assert found["overrides"][0]["sets"]["kinds.starved_queue.pending_ms"] == 60_000
    assert found["receivers"] == ["log", "duty"]


def test_the_settings_as_a_table_say_that_they_are_valid(rules: list[str]) -> None:
    result = invoke(*rules)
    assert result.exit_code == 0
    assert "The settings are valid." in result.stdout
    assert "override 'batch jobs': cluster *, consumer_group batch-*" in result.stdout


def test_a_secret_that_is_missing_is_told_and_one_that_is_there_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "k" * 32 not in invoke().output
    monkeypatch.delenv("DUTY_KEY")
    result = invoke()
    assert result.exit_code == 2
    assert "routing_key_env = 'DUTY_KEY'" in result.stderr
    assert invoke(*starved()).exit_code == 0, "what an alert would do needs no secret"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--kind", "starved"], "kind = 'starved': the rules have no such kind; they have broker_evicted, "),
        (["--kind", "starved_queue"], "--cluster is missing"),
        (["--kind", "starved_queue", "--cluster", "c"], "--group is missing"),
        (["--kind", "broker_isolated", "--cluster", "c", "--group", "g"], "--group 'g': broker_isolated is judged"),
        (["--cluster", "c"], "--kind is missing"),
        (["a-1", "--kind", "starved_queue"], "give either an INCIDENT or --kind"),
        (["--severity", "loud"], "--severity 'loud': choose critical, error, warning, info"),
        (["--format", "csv"], "--format 'csv': choose table or json"),
        (["--rules", "/nowhere.toml"], "rules.file = '/nowhere.toml': No such file"),
    ],
    ids=range(9),
)
def test_a_wrong_question_is_told_and_ends_with_2(arguments: list[str], told: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr


def test_an_imagined_alert_is_judged_by_its_groups_rules(tmp_path: Path, rules: list[str]) -> None:
    found = answer(*rules, *starved("batch-night"))
    told = keys(found)
    assert told["rules.pull_silence_ms"] == (120_000, "override 'batch jobs'")
    assert told["rules.settle_ms"] == (1_000, str(tmp_path / "rules.toml"))
    assert told["rules.kinds.starved_queue.pending_ms"] == (60_000, "override 'batch jobs'")
    assert told["rules.kinds.starved_queue.recovering_ms"] == (5_000, "override 'batch jobs', for all kinds")
    assert told["rules.kinds.starved_queue.pending_looks"] == (2, "default, for all kinds")
    assert "pull_silence_ms (2 min)" in found["fires"]
    assert "for 1 min, at 2 looks" in found["fires"]
    assert "stayed away for 5 s" in found["ends"]


def test_a_kind_that_is_switched_off_never_fires(rules: list[str]) -> None:
    assert answer(*rules, *starved(cluster="test"))["fires"].startswith(
        "Never: kinds.starved_queue.is_enabled is false"
    )


def test_an_override_for_some_groups_is_not_told_of_brokers(rules: list[str]) -> None:
    found = answer(*rules, "--kind", "broker_isolated", "--cluster", "prod")
    assert not [row for row in found["keys"] if "batch" in row["set_by"]]


def test_the_receivers_are_those_of_each_severity_it_may_have(rules: list[str]) -> None:
    found = answer(*starved())
    assert [(one["severity"], one["receiver"], one["route"]) for one in found["receivers"]] == [
        ("critical", "duty", "loud"),
        ("warning", "log", "rest"),
    ]
    assert [one["receiver"] for one in answer(*starved(), "--severity", "error")["receivers"]] == ["duty"]
    assert [one["route"] for one in answer(*rules, *starved("batch-x"))["receivers"]] == ["info is only logged"]


def test_a_silence_that_covers_it_is_told(tmp_path: Path) -> None:
    words = Words(tmp_path / "warehouse")
    words.add_silence(Silence("s1", {"consumer_group": ("bill*",)}, "ann", "moving house", 0, 2**42), 1)
    assert {one["silence_id"] for one in answer(*starved())["silences"]} == {"s1"}
    assert answer(*starved("orders"))["silences"] == []


def test_an_open_incident_that_may_explain_it_is_told(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"incident_id": "twins-1", "kind": "duplicate_client_id", "consumer_group": "billing"},
        {"incident_id": "over-1", "kind": "split_view", "consumer_group": "billing", "state": "RESOLVED"},
        {"incident_id": "other-1", "kind": "split_view", "consumer_group": "orders"},
        {"incident_id": "broker-1", "kind": "unheard_broker"},
    )
    found = answer(*starved())["explained_by"]
    assert [one["incident_id"] for one in found["may_be"]] == ["broker-1", "twins-1"]
    assert found["is"] is None


def test_an_incident_is_told_with_its_state_its_receivers_and_what_suppresses_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"incident_id": "twins-1", "kind": "duplicate_client_id", "consumer_group": "billing", "summary": "Two of it."},
        {
            "incident_id": "starved-1",
            "kind": "starved_queue",
            "consumer_group": "billing",
            "topic": "orders",
            "suppressed_by": "twins-1",
        },
    )
    found = answer("starved-1")
    assert found["incident"]["state"] == "FIRING"
    assert found["explained_by"]["is"] == "twins-1"
    assert found["explained_by"]["summary"] == "Two of it."
    assert found["severities"] == ["critical"]
    assert [one["receiver"] for one in found["receivers"]] == ["duty"]
    table = invoke("starved-1").stdout
    assert "twins-1, so it does not page: Two of it." in table


def test_an_incident_that_is_not_there_is_told_and_ends_with_1(tmp_path: Path) -> None:
    write(tmp_path)
    result = invoke("none-1")
    assert result.exit_code == 1
    assert "INCIDENT 'none-1' is not in the alerts table" in result.stderr


def test_a_check_makes_no_table(tmp_path: Path) -> None:
    answer()
    answer(*starved())
    assert not (tmp_path / "warehouse").exists()


def test_every_kind_has_an_answer_that_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for kind, facts in KIND_FACTS.items():
        result = invoke("--kind", kind, "--cluster", "c", *(["--group", "g"] if facts.is_of_group else []))
        assert result.exit_code == 0, result.output
        assert max(map(len, result.stdout.splitlines())) <= 80
