"""Debian's Alertmanager takes what we send it: alerts, renewals, ends, and a refused one among good ones."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import httpx
import pytest

from streaming.relay.receivers.alertmanager import Alertmanager
from tests.relay.fakes import FakeServer, Received
from tests.relay.notices import notice
from tests.support.alertmanager import Alertmanager as Replica
from tests.support.alertmanager import scratch_alertmanagers
from tests.support.rocketmq_server import wait_for

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("alertmanager")]

LEASE_SECONDS = 600.0


@pytest.fixture(scope="module")
def webhook() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


@pytest.fixture(scope="module")
def replica(webhook: FakeServer) -> Iterator[Replica]:
    with scratch_alertmanagers(webhook.url) as (one,):
        yield one


@pytest.fixture(autouse=True)
def _leaves_nothing_open(replica: Replica) -> Iterator[None]:
    """Each test starts with no alert: what a test leaves is ended by its own labels."""
    yield
    wait_for("no alert is left", lambda: _end_all(replica))


def _end_all(replica: Replica) -> bool:
    left = replica.alerts()
    ended = [
        {name: alert[name] for name in ("labels", "annotations")} | {"endsAt": alert["startsAt"]} for alert in left
    ]
    httpx.post(f"{replica.url}/api/v2/alerts", json=ended, timeout=10.0, trust_env=False)
    return not left


def receiver(replica: Replica, lease_seconds: float = LEASE_SECONDS) -> closing[Alertmanager]:
    """Yield a receiver for `replica`."""
    return closing(Alertmanager("am", replica.url, lease_seconds=lease_seconds))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def notified(received: list[Received], incident_id: str) -> list[str]:
    """Return the states of an incident that the webhook received, in order, without repetitions."""
    states = [
        alert["status"]
        for one in received
        for alert in one.fields["alerts"]
        if alert["annotations"]["incident_id"] == incident_id
    ]
    return [state for index, state in enumerate(states) if index == 0 or states[index - 1] != state]


def test_an_alert_is_active_with_our_labels_and_resolving_ends_it(replica: Replica, webhook: FakeServer) -> None:
    firing = notice(101, started_at_ms=now_ms() - 30_000, static_labels={"team": "payments"})
    with receiver(replica) as sender:
        assert sender.send([firing], now_ms()).verdict == "DELIVERED"
        (alert,) = replica.wait_for_alerts(firing.incident_id)
        assert alert["labels"] == {**firing.all_labels(), "alertname": firing.kind, "severity": "critical"}
        assert alert["labels"]["team"] == "payments"
        assert alert["annotations"]["advice"] == firing.advice
        assert alert["status"]["state"] in {"active", "unprocessed"}
        webhook.wait_until(
            lambda all_: notified(all_, firing.incident_id) == ["firing"], "a notification that it fires"
        )
        resolved = replace(firing, status="resolved", changed_at_ms=now_ms(), summary="Over.")
        assert sender.send([resolved], now_ms()).verdict == "DELIVERED"
        replica.wait_for_alerts()
    webhook.wait_until(lambda all_: notified(all_, firing.incident_id) == ["firing", "resolved"], "one that it is over")


def test_a_lease_ends_by_itself_and_a_renewed_one_does_not(replica: Replica, webhook: FakeServer) -> None:
    """Two alerts on a lease of ten seconds, of which one is renewed until the other has ended."""
    kept, lost = notice(103, started_at_ms=now_ms() - 30_000), notice(104, started_at_ms=now_ms() - 30_000)
    with receiver(replica, lease_seconds=10.0) as short, receiver(replica) as long:
        assert short.send([kept, lost], now_ms()).verdict == "DELIVERED"
        assert long.send([kept], now_ms()).verdict == "DELIVERED"
        webhook.wait_until(
            lambda all_: notified(all_, lost.incident_id) == ["firing", "resolved"], "the lease that ended"
        )
        (alert,) = replica.wait_for_alerts(kept.incident_id)
    assert alert["labels"]["topic"] == kept.topic
    assert notified(webhook.received, kept.incident_id) == ["firing"]


def test_good_alerts_are_stored_beside_a_refused_one(replica: Replica) -> None:
    started_at_ms = now_ms() - 30_000
    good = [notice(number, started_at_ms=started_at_ms) for number in (105, 106)]
    bad = notice(107, started_at_ms=started_at_ms, labels={"bad-name": "x"})
    with receiver(replica) as sender:
        answer = sender.send([good[0], bad, good[1]], now_ms())
    assert answer.verdict == "REFUSED"
    assert "bad-name" in answer.reason or "label" in answer.reason
    replica.wait_for_alerts(*(one.incident_id for one in good))


def test_a_changed_severity_leaves_one_alert(replica: Replica) -> None:
    started_at_ms = now_ms() - 30_000
    with receiver(replica) as sender:
        for severity in ("warning", "critical"):
            notified_of = notice(108, started_at_ms=started_at_ms, severity=severity)
            assert sender.send([notified_of], now_ms()).verdict == "DELIVERED"
            (alert,) = replica.wait_for_alerts(notified_of.incident_id)
            assert alert["labels"]["severity"] == severity


def test_an_incident_that_comes_back_is_a_new_alert(replica: Replica, webhook: FakeServer) -> None:
    """The labels, and so the fingerprint, are equal: the end of the first incident does not end the second."""
    first_ms, second_ms = now_ms() - 30_000, now_ms() - 5_000
    first, second = notice(109, started_at_ms=first_ms), notice(109, started_at_ms=second_ms)
    with receiver(replica) as sender:
        assert sender.send([first], now_ms()).verdict == "DELIVERED"
        ended = notice(109, started_at_ms=first_ms, status="resolved", changed_at_ms=second_ms - 1_000)
        webhook.wait_until(lambda all_: notified(all_, first.incident_id) == ["firing"], "a notification of the first")
        assert sender.send([ended], now_ms()).verdict == "DELIVERED"
        webhook.wait_until(lambda all_: notified(all_, first.incident_id) == ["firing", "resolved"], "one of its end")
        assert sender.send([second], now_ms()).verdict == "DELIVERED"
        (alert,) = replica.wait_for_alerts(second.incident_id)
    assert alert["startsAt"].startswith(time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second_ms / 1000)))
    webhook.wait_until(lambda all_: notified(all_, second.incident_id) == ["firing"], "a notification of the second")


def test_names_in_any_script_and_odd_characters_are_taken(replica: Replica) -> None:
    odd = notice(110, started_at_ms=now_ms() - 30_000, labels={"cluster": "订单", "client_id": 'a"\\\n\x00\ud83d@b'})
    with receiver(replica) as sender:
        assert sender.send([odd], now_ms()).verdict == "DELIVERED"
    (alert,) = replica.wait_for_alerts(odd.incident_id)
    assert alert["labels"]["client_id"] == r'a"\\x0a\x00\ud83d@b'
