"""What `alerts rules` says of alerts about ourselves: each kind that we write has an answer, and it is the code's."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from schemas.suites import CONTRACT
from streaming.quality import inspector
from streaming.quality.inspection import outcome_of
from streaming.relay import own_alerts
from streaming.relay.tables import RelayTables
from streaming.self_monitoring import data_loss
from streaming.self_monitoring.self_alerts import SelfAlerts
from tests.check.checking import answer, judge, move_to_site, write
from udfs.alerts.kinds import KIND_FACTS
from udfs.alerts.routing import WATCHDOG
from udfs.alerts.self_kinds import OWN_CLUSTER, RELAY_KINDS, SELF_FACTS, Limits
from udfs.alerts.silence import Silence

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
    return answer(judge, kind, "--cluster", "prod", *arguments)


def reached(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["receiver"], one["route"]) for one in found["receivers"]]


ALERTS = (
    inspector.describe("rocketmq.pulls", [outcome_of("rocketmq.pulls", CONTRACT, False, 100, 50)]),
    data_loss._loss_alert(
        "groups",
        data_loss.Position("id", 0, True, {}, {}),
        [data_loss.Loss("rocketmq.pulls", 0, 5, 7, 9)],
    ),
    own_alerts.delivery_failed("am[0]", "unreachable", 3),
    own_alerts.alerts_limited("prod", "starved_queue", 4, 100, "warning"),
    own_alerts.canary_lost(),
    own_alerts.run_failing("no Kafka"),
)
ROWS = {alert.kind: SelfAlerts().open(alert, NOW_MS) for alert in ALERTS}


def test_each_kind_is_as_the_code_that_writes_it_has_it() -> None:
    assert set(SELF_FACTS) == {*ROWS, WATCHDOG}
    assert set(ROWS) >= RELAY_KINDS
    assert not set(SELF_FACTS) & set(KIND_FACTS)
    for kind, row in ROWS.items():
        facts = SELF_FACTS[kind]
        assert row["severity"] in facts.severities
        assert facts.cause in (None, row["cause"])
        assert facts.is_of_cluster == (row["cluster"] != OWN_CLUSTER)
        assert facts.is_of_topic == (row["topic"] is not None)


def test_no_sentence_has_a_number_of_its_own_and_each_limit_is_reported() -> None:
    """A span or a count is the one that the code goes by: its name stands in the sentence."""
    reported = " ".join(f"{facts.fires} {facts.ends}" for facts in SELF_FACTS.values())
    assert not re.findall(r"\d|\b(?:twice|two|three|an? (?:hour|minute))\b", reported)
    assert set(re.findall(r"\{(\w+)\}", reported)) == {field.name for field in fields(Limits)}


@pytest.mark.parametrize(
    ("kind", "reported"),
    [
        ("data_quality", "has had no message for 1 h."),
        ("data_loss", "After 1 h of the query without a further loss"),
        ("delivery_failed", "refuses 3 consecutive alerts"),
        ("alerts_limited", "After 1 min without a waiting alert."),
        ("canary_lost", "delivered for 2 times canary.interval_seconds (5 min) plus 1 min."),
        (
            "run_failing",
            "lasts 1 min or ends it, or when a micro-batch takes more than oncall.watchdog_seconds (2 min).",
        ),
    ],
)
def test_the_spans_and_numbers_are_reported(kind: str, reported: str) -> None:
    found = of_kind(kind)
    assert reported in f"{found['fires']} {found['ends']}"


@pytest.mark.parametrize("kind", ROWS)
def test_an_incident_of_our_own_is_reported(tmp_path: Path, kind: str) -> None:
    write(tmp_path, ROWS[kind])
    found = answer(judge, ROWS[kind]["incident_id"])
    assert found["incident"]["summary"] == ROWS[kind]["summary"]
    assert found["severities"] == [ROWS[kind]["severity"]]
    assert found["subject"].items() >= json.loads(ROWS[kind]["labels"]).items()
    assert re.match(r"After|When|Immediately, when", found["fires"])
    assert re.match(r"After|When", found["ends"])


def test_the_settings_that_decide_are_reported_with_their_values_and_who_set_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BALANCEWATCH_QUALITY__PAUSE_SECONDS", "90")
    found = of_kind("data_quality", "--topic", "rocketmq.pulls")
    reported = {row["key"]: (row["value"], row["set_by"]) for row in found["keys"]}
    assert reported == {
        "quality.every_batches": (20, "default"),
        "quality.alert_validations": (3, "default"),
        "quality.alert_share": (0.25, str(tmp_path / "site.toml")),
        "quality.pause_seconds": (90, "BALANCEWATCH_QUALITY__PAUSE_SECONDS"),
    }
    assert "more than quality.alert_share (0.25) of the sampled events" in found["fires"]
    assert "at least quality.pause_seconds (1 min 30 s) apart" in found["fires"]


@pytest.mark.parametrize(
    ("kind", "variable", "value", "reported"),
    [
        ("data_quality", "QUALITY__EVERY_BATCHES", "0", "Never: quality.every_batches (0): no events are validated"),
        ("canary_lost", "CANARY__INTERVAL_SECONDS", "0", "Never: canary.interval_seconds (0 s): no canary is injected"),
    ],
)
def test_what_is_switched_off_never_fires(
    monkeypatch: pytest.MonkeyPatch, kind: str, variable: str, value: str, reported: str
) -> None:
    assert of_kind(kind)["fires"].startswith(("After", "Immediately", "When"))
    monkeypatch.setenv(f"BALANCEWATCH_{variable}", value)
    assert of_kind(kind)["fires"].startswith(reported)


def test_the_receivers_are_those_that_the_alert_would_reach(tmp_path: Path) -> None:
    assert reached(of_kind("data_quality", "--topic", "rocketmq.pulls")) == [("data", "events")]
    assert reached(of_kind("data_quality")) == [("log", "rest")]
    assert reached(of_kind("canary_lost")) == [("log", "rest")]
    assert reached(of_kind("watchdog")) == [("data", "switch")]
    assert reached(of_kind("alerts_limited")) == []
    write(tmp_path, ROWS["delivery_failed"])
    names = [name for name, _ in reached(answer(judge, ROWS["delivery_failed"]["incident_id"]))]
    assert names == ["log", "am[1]", "data"]


def test_a_silence_keeps_what_it_covers_and_never_the_watchdog(tmp_path: Path) -> None:
    RelayTables(tmp_path / "warehouse").add_silence(
        Silence("s1", {"cluster": ("balance*",)}, "ann", "moving", 0, 2**42), 1
    )
    assert [one["silence_id"] for one in of_kind("data_loss")["silences"]] == ["s1"]
    assert of_kind("alerts_limited")["silences"] == of_kind("watchdog")["silences"] == []
