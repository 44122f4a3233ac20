"""The webhook is Alertmanager's, version 4, and carries the notice's key."""

from contextlib import closing

from streaming.relay.receivers.webhook import Webhook, message
from streaming.text.times import iso
from tests.relay.fakes import Reset
from tests.relay.notices import NOW_MS, notice
from tests.relay.vendors import FakeWebhook

TOKEN = "t0ken-of-nothing"  # noqa: S105 # of no server


def test_each_notice_is_a_request_with_its_key() -> None:
    firing, resolved = notice(), notice(status="resolved", changed_at_ms=NOW_MS)
    with FakeWebhook(TOKEN) as vendor, closing(Webhook("ops", vendor.url, token=TOKEN)) as hook:
        for notified in (firing, resolved):
            assert hook.send([notified], NOW_MS).verdict == "DELIVERED"
        assert vendor.keys_taken == [firing.key, resolved.key]
        alerts = [one.fields["alerts"][0] for one in vendor.received]
    assert [alert["endsAt"] for alert in alerts] == ["0001-01-01T00:00:00Z", "2026-11-21T10:53:20.000Z"]
    assert alerts[0]["fingerprint"] == alerts[1]["fingerprint"] == firing.alert_id


def test_times_are_the_alerts_however_far_behind_the_senders_clock_is() -> None:
    resolved = notice(status="resolved", changed_at_ms=NOW_MS)
    with FakeWebhook() as vendor, closing(Webhook("ops", vendor.url)) as hook:
        assert hook.send([resolved], NOW_MS - 3_600_000).verdict == "DELIVERED"
        (alert,) = vendor.received[0].fields["alerts"]
    assert (alert["startsAt"], alert["endsAt"]) == (iso(resolved.started_at_ms), iso(NOW_MS))


def test_a_repetition_carries_the_same_key() -> None:
    """Without an answer it is sent again; the receiver drops it by its key."""
    with FakeWebhook() as vendor, closing(Webhook("ops", vendor.url)) as hook:
        vendor.script(Reset())
        verdicts = [hook.send([notice()], NOW_MS).verdict for _ in range(3)]
        assert verdicts == ["RETRY", "DELIVERED", "DELIVERED"]
        assert vendor.counts("idempotency-key") == {notice().key: 3}
        assert vendor.keys_taken == [notice().key]


def test_a_message_is_a_group_of_one_alert_in_alertmanagers_format() -> None:
    firing, over = (message(notice(status=status), "ops") for status in ("firing", "resolved"))
    assert firing["groupLabels"] == {"alertname": "starved_queue", "cluster": "demo"}
    assert firing["groupKey"] == '{}:{alertname="starved_queue", cluster="demo"}'
    assert firing["commonLabels"] == firing["alerts"][0]["labels"]
    assert firing["commonLabels"]["consumer_group"] == "order-service"
    assert firing["notification_reason"] == "opened"
    assert (firing["status"], over["status"]) == ("firing", "resolved")


def test_a_name_of_any_script_makes_a_key_that_a_header_can_carry() -> None:
    with FakeWebhook() as vendor, closing(Webhook("ops", vendor.url)) as hook:
        assert hook.send([notice(incident_id="订单\r\n-1")], NOW_MS).verdict == "DELIVERED"
