"""What a relay does, as metrics: a real relay with scripted receivers, and single words of it."""

from pathlib import Path

import pytest

from streaming.metrics.deliveries import Deliveries
from streaming.metrics.exporter import Exporter
from streaming.metrics.verdicts import Verdicts
from streaming.relay.notice import read_transition
from streaming.relay.outbox import Record
from streaming.relay.receivers import make_receivers
from streaming.relay.receivers.posting import Answer
from streaming.relay.relay import Relay, Reply
from streaming.relay.tables import DeliveryLog, OperatorInput
from tests.metrics.samples import samples, value
from tests.relay.stage import START_MS, alert_row
from tests.relay.test_relay import SECONDS, settings_of


def deliveries() -> tuple[Exporter, Deliveries]:
    exporter = Exporter()
    return exporter, Deliveries(exporter, Verdicts(exporter, 10))


def record(outcome: str, seconds: float, **fields: object) -> Record:
    at_ms = START_MS + round(seconds * 1000)
    known = {"kind": "starved_queue", "status": "firing", "changed_at_ms": START_MS, "at_ms": at_ms, "receiver": "am"}
    return Record("i", "key", outcome=outcome, **(known | fields))  # type: ignore[arg-type]  # whatever a test gives


def test_a_relay_at_work_reports_its_calls_its_decisions_and_what_is_due(tmp_path: Path) -> None:
    exporter, listener = deliveries()
    settings = settings_of("http://127.0.0.1:9/")  # nobody listens there
    relay = Relay(settings, DeliveryLog(tmp_path), OperatorInput(tmp_path), make_receivers(settings), listener=listener)
    try:
        relay.observe([read_transition(alert_row("i", "FIRING", START_MS + 1))])
        relay.finish(SECONDS)
        relay._loop._counted_at_ms = 0
        relay.step(0)
    finally:
        relay.close()
    assert (value(exporter, "balancewatch_delivery_attempts_total", receiver="hook", outcome="RETRY") or 0) >= 1
    assert value(exporter, "balancewatch_delivery_decisions_total", outcome="PENDING") == 1
    assert value(exporter, "balancewatch_notifications_pending", receiver="hook") == 1
    assert value(exporter, "balancewatch_delivery_seconds_count", receiver="hook") is None


def test_delivery_takes_from_the_alerts_step_to_the_receivers_yes() -> None:
    exporter, listener = deliveries()
    listener.decided([record("DELIVERED", 12.5), record("RETRYING", 90), record("INHIBITED", 1, receiver="*")], [])
    assert value(exporter, "balancewatch_delivery_seconds_count", receiver="am") == 1
    assert value(exporter, "balancewatch_delivery_seconds_sum", receiver="am") == 12.5
    assert {
        dict(key)["outcome"]: count for key, count in samples(exporter, "balancewatch_delivery_decisions_total").items()
    } == {
        "DELIVERED": 1,
        "RETRYING": 1,
        "INHIBITED": 1,
    }


def test_the_canary_is_its_own_figure_and_nobodys_page() -> None:
    exporter, listener = deliveries()
    listener.answered(Reply("canary", Answer("DELIVERED", None, "here"), 1))
    listener.decided(
        [record("DELIVERED", 4, receiver="canary"), record("DELIVERED", 9, receiver="canary", status="resolved")], []
    )
    listener.owes({"canary": 1, "am": 0})
    assert value(exporter, "balancewatch_canary_latency_seconds_count") == 1
    assert value(exporter, "balancewatch_canary_latency_seconds_sum") == 4
    for name in ("delivery_attempts_total", "delivery_decisions_total", "delivery_seconds_count"):
        assert samples(exporter, f"balancewatch_{name}") == {}
    assert list(samples(exporter, "balancewatch_notifications_pending")) == [(("receiver", "am"),)]


def test_the_newest_canary_of_the_run_before_counts_on(tmp_path: Path) -> None:
    exporter, listener = deliveries()
    arrived = record("DELIVERED", 4, receiver="canary", kind="duplicate_client_id")
    DeliveryLog(tmp_path).append([arrived])
    listener.load(tmp_path)
    age = value(exporter, "balancewatch_canary_age_seconds")
    assert age is not None
    assert listener._canary_at == arrived.at_ms / 1000


def test_a_canary_that_never_comes_grows_old_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the rule on its age would say nothing, for there is no newest one."""
    exporter, listener = deliveries()
    monkeypatch.setattr("time.time", lambda: 5_000.0)
    listener.load(tmp_path / "nothing yet")
    monkeypatch.setattr("time.time", lambda: 5_700.0)
    assert value(exporter, "balancewatch_canary_age_seconds") == 700


def test_a_receiver_that_the_settings_no_longer_name_takes_its_series_along() -> None:
    exporter, listener = deliveries()
    listener.owes({"am": 3, "hook": 1})
    listener.owes({"am": 2})
    assert samples(exporter, "balancewatch_notifications_pending") == {(("receiver", "am"),): 2}


def test_alerts_about_the_relay_are_open_incidents_too() -> None:
    exporter, listener = deliveries()
    row = alert_row("own", "FIRING", START_MS, kind="canary_lost", cluster="balancewatch")
    listener.decided([], [row])
    labels = {"cluster": "balancewatch", "kind": "canary_lost", "severity": "critical", "is_inhibited": "false"}
    assert value(exporter, "balancewatch_incidents", **labels, state="FIRING") == 1
    listener.restarted()
    assert value(exporter, "balancewatch_relay_restarts_total") == 1
