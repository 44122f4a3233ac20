"""Metrics of the relay: a real relay with scripted receivers, and single reports."""

from pathlib import Path

import pytest

from schemas.tables import ALERT_DELIVERIES, ALERTS
from streaming.metrics.exporter import Exporter
from streaming.metrics.instruments import Deliveries
from streaming.relay.notice import Outcome, record_of
from streaming.relay.receivers.posting import Answer
from streaming.relay.tables import RelayTables
from streaming.warehouse.readable_rows import Row
from tests.metrics.samples import samples, value
from tests.relay.notices import notice
from tests.relay.stage import START_MS, alert_row
from tests.relay.test_relay import SECONDS, relay_of, settings_of


def deliveries() -> tuple[Exporter, Deliveries]:
    exporter = Exporter()
    return exporter, Deliveries(exporter)


def record(outcome: Outcome, seconds: float, **cells: object) -> Row:
    known = {"receiver": "am"} | cells
    return record_of(notice(changed_at_ms=START_MS), outcome, START_MS + round(seconds * 1000), **known)


def test_a_running_relay_reports_calls_decisions_and_pending_notifications(tmp_path: Path) -> None:
    exporter, listener = deliveries()
    settings = settings_of("http://127.0.0.1:9/")  # a closed port
    relay = relay_of(settings, tmp_path, listener=listener)
    listener.restarted()
    try:
        relay.owed.log._tables.append(ALERTS, [alert_row("i", "FIRING", START_MS + 1)])
        relay.finish(SECONDS)
        relay._counted_at_ms = 0
        relay.step(0)
    finally:
        relay.close()
    assert (value(exporter, "balancewatch_delivery_attempts_total", receiver="hook", outcome="RETRY") or 0) >= 1
    assert value(exporter, "balancewatch_delivery_decisions_total", outcome="PENDING") == 1
    assert value(exporter, "balancewatch_notifications_pending", receiver="hook") == 1
    assert value(exporter, "balancewatch_delivery_seconds_count", receiver="hook") is None
    assert value(exporter, "balancewatch_relay_restarts_total") == 1


def test_delivery_time_is_from_the_state_change_to_acceptance() -> None:
    exporter, listener = deliveries()
    listener.decided([record("DELIVERED", 12.5), record("RETRYING", 90), record("INHIBITED", 1, receiver="*")])
    assert value(exporter, "balancewatch_delivery_seconds_count", receiver="am") == 1
    assert value(exporter, "balancewatch_delivery_seconds_sum", receiver="am") == 12.5
    decided = samples(exporter, "balancewatch_delivery_decisions_total")
    assert decided == {(("outcome", outcome),): 1 for outcome in ("DELIVERED", "RETRYING", "INHIBITED")}


def test_the_canary_has_its_own_metrics() -> None:
    exporter, listener = deliveries()
    listener.answered("canary", Answer("DELIVERED", None, "here"), 1)
    listener.decided(
        [record("DELIVERED", 4, receiver="canary"), record("DELIVERED", 9, receiver="canary", status="resolved")]
    )
    listener.owes({"canary": 1, "am": 0})
    assert value(exporter, "balancewatch_canary_latency_seconds_count") == 1
    assert value(exporter, "balancewatch_canary_latency_seconds_sum") == 4
    for name in ("delivery_attempts_total", "delivery_decisions_total", "delivery_seconds_count"):
        assert samples(exporter, f"balancewatch_{name}") == {}
    assert list(samples(exporter, "balancewatch_notifications_pending")) == [(("receiver", "am"),)]


def test_the_age_continues_from_the_newest_canary_of_an_earlier_run(tmp_path: Path) -> None:
    exporter, listener = deliveries()
    arrived = record("DELIVERED", 4, receiver="canary", route="canary")
    RelayTables(tmp_path).append(ALERT_DELIVERIES, [arrived])
    listener.load(tmp_path)
    age = value(exporter, "balancewatch_canary_age_seconds")
    assert age is not None
    assert listener._canary_at == arrived["delivered_at"] / 1000


def test_without_a_canary_the_age_grows_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the rule on the age would have no data."""
    exporter, listener = deliveries()
    monkeypatch.setattr("time.time", lambda: 5_000.0)
    listener.load(tmp_path / "nothing yet")
    monkeypatch.setattr("time.time", lambda: 5_700.0)
    assert value(exporter, "balancewatch_canary_age_seconds") == 700


def test_a_removed_receiver_loses_its_series() -> None:
    exporter, listener = deliveries()
    listener.owes({"am": 3, "hook": 1})
    listener.owes({"am": 2})
    assert samples(exporter, "balancewatch_notifications_pending") == {(("receiver", "am"),): 2}
