"""PagerDuty gets one event per notice, within its limits; its answers are classified."""

import json
from contextlib import closing

import pytest

from streaming.relay.notice import Links
from streaming.relay.receivers.pagerduty import BODY_BYTES, PagerDuty, event
from tests.relay.fakes import Reply
from tests.relay.notices import NOW_MS, notice
from tests.relay.vendors import ROUTING_KEY, FakePagerDuty


def test_an_incident_opens_once_is_acknowledged_and_closes() -> None:
    """A repeated or changed trigger does not page again."""
    notified = notice()
    with FakePagerDuty() as vendor, closing(PagerDuty("pager", vendor.url, secret=ROUTING_KEY)) as pager:
        answers = [pager.send([notified], NOW_MS), pager.send([notice(queues=("broker-b:1",))], NOW_MS)]
        opened = dict(vendor.opened)
        answers.append(pager.send([notice(status="acknowledged")], NOW_MS))
        acknowledged = set(vendor.acknowledged)
        answers.append(pager.send([notice(status="resolved")], NOW_MS))
        assert [answer.code for answer in answers] == [202] * 4
        assert (opened, acknowledged, vendor.open) == ({notified.incident_id: 1}, {notified.incident_id}, {})
        assert vendor.counts("dedup_key") == {notified.incident_id: 4}


@pytest.mark.parametrize("key", ["f" * 32, "short"])
def test_a_key_it_does_not_know_is_a_bad_key_and_is_not_notified(key: str) -> None:
    with FakePagerDuty() as vendor, closing(PagerDuty("pager", vendor.url, secret=key)) as pager:
        vendor.script(Reply(400, {"errors": [f"Invalid routing key {key}"]}))
        for _ in range(2):
            answer = pager.send([notice()], NOW_MS)
            assert (answer.verdict, answer.code) == ("BAD_KEY", 400)
            assert key not in answer.reason


def test_an_event_it_finds_invalid_is_refused() -> None:
    with FakePagerDuty() as vendor, closing(PagerDuty("pager", vendor.url, secret=ROUTING_KEY)) as pager:
        vendor.script(Reply(400, {"message": "Event object is invalid", "errors": ["'payload.source' is missing"]}))
        answer = pager.send([notice()], NOW_MS)
    assert answer.verdict == "REFUSED"
    assert "payload.source" in answer.reason


def test_when_throttled_it_waits_for_minutes_at_least() -> None:
    with FakePagerDuty() as vendor, closing(PagerDuty("pager", vendor.url, secret=ROUTING_KEY)) as pager:
        vendor.script(Reply(429), Reply(429, headers={"Retry-After": "3"}), Reply(429, headers={"Retry-After": "900"}))
        answers = [pager.send([notice()], NOW_MS) for _ in range(3)]
    assert [(answer.verdict, answer.retry_after_seconds) for answer in answers] == [
        ("RETRY", 120.0),
        ("RETRY", 120.0),
        ("RETRY", 900.0),
    ]


def test_the_event_reports_where_what_and_why() -> None:
    notified = json.loads(event(notice(evidence={"addrs": ["10.0.0.1:1"]}), ROUTING_KEY, Links("https://board/")))
    payload = notified["payload"]
    link = f"https://board/incident?id={notified['dedup_key']}"
    assert (notified["links"][0]["href"], notified["client_url"]) == (link, link)
    assert (payload["source"], payload["group"], payload["component"]) == ("demo", "order-service", "orders-1")
    assert (payload["class"], payload["severity"]) == ("starved_queue", "critical")
    assert payload["custom_details"]["evidence"] == {"addrs": ["10.0.0.1:1"]}
    assert payload["custom_details"]["cause"] == "duplicate_client_id"


@pytest.mark.parametrize(("ours", "theirs"), [("critical", "critical"), ("info", "info"), ("disaster", "error")])
def test_an_unknown_severity_is_an_error_and_a_long_summary_is_cut_at_1024_characters(ours: str, theirs: str) -> None:
    notified = json.loads(event(notice(severity=ours, summary="队" * 3_000), ROUTING_KEY))
    assert notified["payload"]["summary"] == "队" * 1_023 + "…"
    assert notified["payload"]["severity"] == theirs


@pytest.mark.parametrize(
    "large",
    [
        {"evidence": {"addrs": ["订单" * 100] * 2_000}},
        {"queues": tuple(f"broker-a:{number}" for number in range(100_000)), "evidence": {"a": "b" * 600_000}},
    ],
    ids=["evidence", "queues"],
)
def test_an_event_too_large_leaves_out_what_is_least_and_says_so(large: dict[str, object]) -> None:
    with FakePagerDuty() as vendor, closing(PagerDuty("pager", vendor.url, secret=ROUTING_KEY)) as pager:
        assert pager.send([notice(**large)], NOW_MS).verdict == "DELIVERED"
        (request,) = vendor.received
    details = request.fields["payload"]["custom_details"]
    assert len(request.body) <= BODY_BYTES
    assert "omitted" in details["evidence"]
    assert len(details["queues"]) == 2 or details["queues"][-1] == "and 99900 more"
