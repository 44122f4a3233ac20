"""What `check` says of alerts that no rule decides: each kind that we write has an answer, and it is the code's."""

import json
from pathlib import Path
from typing import Any

import pytest

from conf.settings import Settings
from streaming import data_loss
from streaming.history.check_own import OWN_FACTS
from streaming.oncall import own_alerts, own_book, pace
from streaming.oncall.canary import lost_after_ms
from streaming.oncall.ledger import Words
from streaming.quality import quality_alert
from streaming.queries.warehouse import DeltalakeWriter, append_rows
from tests.history.checking import answer, invoke, move_to_site
from udfs.kinds import KIND_FACTS
from udfs.routing import WATCHDOG
from udfs.silence import Silence

SITE = """
[quality]
alert_share = 0.25
[queries]
fail_on_data_loss = false
[[oncall.receivers]]
name = "log"
type = "log"
[[oncall.receivers]]
name = "am"
type = "alertmanager"
urls = ["http://127.0.0.1:1", "http://127.0.0.1:2"]
[[oncall.receivers]]
name = "data"
type = "log"
[[oncall.routes]]
name = "events"
match = { kind = "data_*", cluster = "balancewatch", topic = "*pulls" }
receivers = ["data"]
[[oncall.routes]]
name = "switch"
match = { kind = "watchdog" }
receivers = ["data"]
[[oncall.routes]]
name = "rest"
receivers = ["log"]
"""

NOW_MS = 1_750_000_000_000


@pytest.fixture(autouse=True)
def _a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    move_to_site(tmp_path, monkeypatch, SITE)


def of_kind(kind: str, *arguments: str) -> dict[str, Any]:
    return answer("--kind", kind, "--cluster", "prod", *arguments)


def reached(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["receiver"], one["route"]) for one in found["receivers"]]


def written(tmp_path: Path, row: dict[str, Any]) -> str:
    append_rows(DeltalakeWriter(tmp_path / "warehouse"), {"alerts": [row]}, "app", 0)
    return str(row["incident_id"])


OWN_ROWS = {
    "data_quality": quality_alert.describe("rocketmq.pulls", [], quality_alert.Kept(100, 50)).row(
        "FIRING", NOW_MS, NOW_MS
    )
    | {"topic": "rocketmq.pulls"},
    "data_loss": data_loss._row(
        "groups",
        data_loss.Position("id", 0, True, {}, {}),
        [data_loss.Loss("rocketmq.pulls", 0, 5, data_loss.Span(7, 9))],
        NOW_MS,
        NOW_MS,
    ),
    "delivery_failed": own_alerts.delivery_failed("am[0]", "unreachable", 3).row("FIRING", NOW_MS, NOW_MS),
    "more_alerts": own_alerts.more_alerts("prod", "starved_queue", 4, 100, "warning").row("FIRING", NOW_MS, NOW_MS),
    "canary_lost": own_alerts.canary_lost().row("RESOLVED", NOW_MS, NOW_MS),
}


def test_every_kind_that_we_write_ourselves_has_an_answer() -> None:
    written_kinds = own_alerts.OWN_KINDS | {quality_alert.KIND, data_loss.KIND, WATCHDOG}
    assert set(OWN_FACTS) == written_kinds
    assert set(OWN_ROWS) == written_kinds - {WATCHDOG}
    assert not set(OWN_FACTS) & set(KIND_FACTS)


def test_the_facts_told_are_those_of_the_code_that_writes_the_alerts() -> None:
    for kind, row in OWN_ROWS.items():
        facts = OWN_FACTS[kind]
        assert row["severity"] in facts.severities
        assert facts.cause in (None, row["cause"])
        assert facts.is_of_cluster == (row["cluster"] != own_alerts.OWN_CLUSTER)
        assert facts.is_of_topic == (row.get("topic") is not None)
    assert {quality_alert.QUIET_MS, data_loss.SETTLED_MS} == {3_600_000}
    assert own_book.LINGER_MS == 60_000
    assert pace.MOST_REFUSALS == 3
    settings = Settings.load()
    assert lost_after_ms(settings) == 2 * settings.canary.interval_seconds * 1000 + 60_000


@pytest.mark.parametrize("kind", OWN_ROWS)
def test_an_incident_of_our_own_is_told(tmp_path: Path, kind: str) -> None:
    found = answer(written(tmp_path, OWN_ROWS[kind]))
    assert found["incident"]["summary"] == OWN_ROWS[kind]["summary"]
    assert found["severities"] == [OWN_ROWS[kind]["severity"]]
    assert found["subject"].items() >= json.loads(OWN_ROWS[kind]["labels"]).items()
    assert found["fires"].startswith("At once, when ")
    assert found["ends"].startswith("RESOLVED ")


def test_the_settings_that_decide_are_told_with_their_values_and_who_set_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BALANCEWATCH_QUALITY__PAUSE_SECONDS", "90")
    found = of_kind("data_quality", "--topic", "rocketmq.pulls")
    told = {row["key"]: (row["value"], row["set_by"]) for row in found["keys"]}
    assert told == {
        "quality.every_batches": (20, "default"),
        "quality.alert_validations": (3, "default"),
        "quality.alert_share": (0.25, str(tmp_path / "site.toml")),
        "quality.pause_seconds": (90, "BALANCEWATCH_QUALITY__PAUSE_SECONDS"),
    }
    assert "more than quality.alert_share (0.25) of a sample's events" in found["fires"]
    assert "quality.pause_seconds (1 min 30 s) apart" in found["fires"]


@pytest.mark.parametrize(
    ("kind", "variable", "value", "told"),
    [
        ("data_quality", "QUALITY__EVERY_BATCHES", "0", "Never: quality.every_batches (0): no events are validated"),
        ("data_loss", "QUERIES__FAIL_ON_DATA_LOSS", "true", "Never: queries.fail_on_data_loss (true): a query that"),
        ("canary_lost", "CANARY__INTERVAL_SECONDS", "0", "Never: canary.interval_seconds (0 s): none is injected"),
    ],
)
def test_what_is_switched_off_never_fires(
    monkeypatch: pytest.MonkeyPatch, kind: str, variable: str, value: str, told: str
) -> None:
    assert of_kind(kind)["fires"].startswith("At once")
    monkeypatch.setenv(f"BALANCEWATCH_{variable}", value)
    assert of_kind(kind)["fires"].startswith(told)


def test_the_receivers_are_those_that_the_alert_would_reach(tmp_path: Path) -> None:
    assert reached(of_kind("data_quality", "--topic", "rocketmq.pulls")) == [("data", "events")]
    assert reached(of_kind("data_quality")) == [("log", "rest")]
    assert reached(of_kind("canary_lost")) == [("log", "rest")]
    assert reached(of_kind("watchdog")) == [("data", "switch")]
    assert reached(of_kind("more_alerts")) == []
    names = [name for name, _ in reached(answer(written(tmp_path, OWN_ROWS["delivery_failed"])))]
    assert names == ["log", "am[1]", "data"]


def test_a_silence_keeps_what_it_covers_and_never_the_watchdog(tmp_path: Path) -> None:
    Words(tmp_path / "warehouse").add_silence(Silence("s1", {"cluster": ("balance*",)}, "ann", "moving", 0, 2**42), 1)
    assert [one["silence_id"] for one in of_kind("data_loss")["silences"]] == ["s1"]
    assert of_kind("more_alerts")["silences"] == of_kind("watchdog")["silences"] == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--kind", "data_qualities"], "balancewatch tells of itself by canary_lost, data_loss, data_quality, "),
        (["--kind", "more_alerts"], "--cluster is missing"),
        (["--kind", "data_quality", "--group", "g"], "--group 'g': data_quality is about no consumer group"),
        (["--kind", "data_loss", "--topic", "t"], "--topic 't': data_loss is about no topic"),
    ],
)
def test_a_wrong_question_is_told_and_ends_with_2(arguments: list[str], told: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_every_answer_fits_a_narrow_terminal_and_says_what_it_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for kind in OWN_FACTS:
        result = invoke("--kind", kind, "--cluster", "c")
        assert result.exit_code == 0, result.output
        assert max(map(len, result.stdout.splitlines())) <= 80
        assert "│ means" in result.stdout
