"""`oncall test`: a marked alert and its end reach each kind of receiver; what it prints, refuses and leaves behind."""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from streaming.cli import app
from streaming.relay import oncall_command
from tests.relay.fakes import FakeServer, Received, Reply
from tests.relay.vendors import ROUTING_KEY, FakeDingTalk, FakeFeishu, FakePagerDuty, FakeWebhook

SITES: dict[str, tuple[type[FakeServer], str]] = {
    "alertmanager": (FakeServer, 'urls = ["{url}"]'),
    "pagerduty": (FakePagerDuty, 'url = "{url}"\nrouting_key_env = "ONCALL_KEY"'),
    "webhook": (FakeWebhook, 'url = "{url}"'),
    "dingtalk": (FakeDingTalk, 'url = "{url}"'),
    "feishu": (FakeFeishu, 'url = "{url}"'),
}
SECRETS = (ROUTING_KEY, "d1ng-ta1k-t0ken", "f31shu-t0ken-0123456789")

Rows = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that a test waited for the ends; no time passes."""
    found: list[float] = []
    monkeypatch.setattr(oncall_command, "time", SimpleNamespace(monotonic=time.monotonic, sleep=found.append))
    monkeypatch.setenv("ONCALL_KEY", ROUTING_KEY)
    return found


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BALANCEWATCH_CONFIG", str(tmp_path / "site.toml"))
    monkeypatch.setenv("BALANCEWATCH_PATHS__WAREHOUSE", str(tmp_path / "warehouse"))
    return tmp_path / "site.toml"


def configure(site: Path, *types: str, **urls: str) -> None:
    """Each receiver has its type as its name."""
    tables = [
        f'[[oncall.receivers]]\nname = "{type_}"\ntype = "{type_}"\n{SITES[type_][1].format(url=urls[type_])}'
        for type_ in types
    ]
    site.write_text("\n".join([*tables, '[[oncall.routes]]\nname = "all"', f'receivers = ["{types[0]}"]']))


def oncall(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["oncall", "test", *arguments])
    assert result.exit_code == code, result.output
    assert not [secret for secret in SECRETS if secret in result.output]
    return result


def labels(type_: str, request: Received) -> dict[str, str]:
    """The alert's labels as this vendor gets them."""
    match type_:
        case "alertmanager":
            found = request.fields[0]["labels"]
        case "webhook":
            found = request.fields["alerts"][0]["labels"]
        case _:
            found = request.fields["payload"]["custom_details"]["labels"]
    return dict(found)


@pytest.mark.parametrize("type_", SITES)
def test_a_marked_alert_and_its_end_are_delivered(type_: str, site: Path, waits: list[float]) -> None:
    with SITES[type_][0]() as vendor:
        configure(site, type_, **{type_: vendor.url})
        lines = oncall(type_).stdout.splitlines()
    begin, end = vendor.received[-2:]  # Alertmanager is asked for its clock first
    assert f"Test of the receiver {type_}".encode() in begin.body
    if type_ in ("alertmanager", "webhook", "pagerduty"):
        assert labels(type_, begin) | {"receiver": type_, "test": "true"} == labels(type_, begin)
    assert [line.split(" (")[0].removeprefix(f"{type_}: ").removeprefix(f"{type_}[0]: ") for line in lines[:2]] == [
        "firing delivered",
        "resolved delivered",
    ]
    assert oncall_command.SEEN[type_] in lines[2]
    assert begin.body != end.body
    least = {"alertmanager": 10, "pagerduty": 10, "dingtalk": 3.5, "feishu": 0.7, "webhook": 0}
    assert max(waits, default=0) >= least[type_]
    assert not (site.parent / "warehouse").exists()


def test_an_incident_of_its_own_is_opened_and_resolved(site: Path) -> None:
    with FakePagerDuty() as pager:
        configure(site, "pagerduty", pagerduty=pager.url)
        for _ in range(2):
            oncall("pagerduty")
        assert pager.open == {}
        assert list(pager.opened.values()) == [1, 1]
        assert all(key.startswith("test-") for key in pager.opened)


@pytest.mark.parametrize("type_", SITES)
def test_a_refused_key_ends_the_test_with_the_vendors_words(type_: str, site: Path) -> None:
    with SITES[type_][0]() as vendor:
        vendor.script(Reply(403, {"message": "no such key"}))
        configure(site, type_, **{type_: vendor.url})
        first, fix = oncall(type_, code=1).stdout.splitlines()
    assert len(vendor.received) == 1
    assert "firing key refused" in first
    assert "answered 403: the key is invalid" in first
    assert fix.endswith("Correct the key in its environment variable.")


def test_a_robots_own_code_counts(site: Path) -> None:
    with FakeDingTalk(ROUTING_KEY) as robot:
        configure(site, "dingtalk", dingtalk=robot.url)
        assert "code 310000: sign not match" in oncall("dingtalk", code=1).stdout


def test_a_dead_receiver_fails_and_the_others_are_tested(site: Path) -> None:
    with FakePagerDuty() as pager, FakeServer() as gone:
        dead = gone.url
        gone.close()
        configure(site, "alertmanager", "pagerduty", alertmanager=dead, pagerduty=pager.url)
        found = json.loads(oncall("--all", "-o", "json", code=1).stdout)
    calls: Rows = found["calls"]
    assert [(call["receiver"], call["status"], call["outcome"], call["code"]) for call in calls] == [
        ("alertmanager[0]", "firing", "RETRY", None),
        ("pagerduty", "firing", "DELIVERED", 202),
        ("alertmanager[0]", "resolved", "RETRY", None),
        ("pagerduty", "resolved", "DELIVERED", 202),
    ]
    assert list(found["expected"]) == ["pagerduty"]


def test_an_interrupted_wait_still_sends_the_end(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(oncall_command.time, "sleep", interrupt)
    with FakePagerDuty() as pager:
        configure(site, "pagerduty", pagerduty=pager.url)
        CliRunner().invoke(app, ["oncall", "test", "pagerduty"])
        assert (pager.open, len(pager.received)) == ({}, 2)


def test_wrong_usage_names_the_receivers(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(site, "pagerduty", "alertmanager", pagerduty="http://127.0.0.1:1", alertmanager="http://127.0.0.1:1")
    assert (
        "nearest: pagerduty; receivers: pagerduty, alertmanager, alertmanager[0]" in oncall("pagerdut", code=2).stderr
    )
    assert "either a RECEIVER or --all" in oncall(code=2).stderr
    assert "either a RECEIVER or --all" in oncall("pagerduty", "--all", code=2).stderr
    monkeypatch.delenv("ONCALL_KEY")
    assert "the environment variable ONCALL_KEY is empty or not set; set it" in oncall("--all", code=2).stderr
