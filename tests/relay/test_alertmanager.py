"""Alertmanager: the request, and the meaning of its answers to a batch."""

from contextlib import closing
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.relay.notice import Links
from streaming.relay.receivers.alertmanager import Alertmanager, alerts
from streaming.text.times import iso
from tests.relay.fakes import FakeServer, Reply, Reset
from tests.relay.notices import NOW_MS, notice

LEASE_MS = 240_000
TOKEN = "t0ken"  # noqa: S105 # of no server


def reports(vendor: FakeServer) -> list[list[dict[str, Any]]]:
    """The requests with alerts: the first of all, which asks for the clock, has none."""
    return [request.fields for request in vendor.received if request.fields]


def only(given: list[dict[str, Any]]) -> dict[str, Any]:
    (alert,) = given
    return alert


def test_a_firing_alert_is_a_lease_that_starts_with_the_incident() -> None:
    alert = only(alerts([notice()], NOW_MS, LEASE_MS, None, Links("http://b", "http://r")))
    assert alert["labels"] == {
        "alertname": "starved_queue",
        "severity": "critical",
        "cluster": "demo",
        "consumer_group": "order-service",
        "topic": "orders-1",
    }
    assert alert["startsAt"] == iso(NOW_MS - 60_000)
    assert alert["endsAt"] == iso(NOW_MS + LEASE_MS)
    assert alert["annotations"]["cause"] == "duplicate_client_id"
    assert alert["annotations"]["queues"] == "broker-a:6, broker-a:7"
    assert alert["annotations"]["runbook_url"] == "http://r/starved_queue#duplicate_client_id"
    assert alert["generatorURL"] == f"http://b/incident?id={notice().incident_id}"


@given(
    st.sampled_from(["firing", "resolved"]),
    st.integers(-(10**9), 10**9),
    st.integers(-(10**9), 10**9),
)
def test_no_alert_ends_before_it_starts_and_a_resolved_one_not_in_the_future(
    status: str, started: int, changed: int
) -> None:
    """Event time may be behind or ahead of the wall clock; Alertmanager refuses the one and ignores the other."""
    notified = notice(status=status, started_at_ms=NOW_MS + started, changed_at_ms=NOW_MS + changed)
    alert = only(alerts([notified], NOW_MS, LEASE_MS))
    starts, ends = (datetime.fromisoformat(alert[name]) for name in ("startsAt", "endsAt"))
    now = datetime.fromisoformat(iso(NOW_MS))
    assert starts <= now
    assert starts <= ends
    assert (ends > now) == (status == "firing")
    if status == "resolved" and started <= changed <= 0:
        assert alert["endsAt"] == iso(NOW_MS + changed)


def test_empty_labels_are_left_out_and_half_characters_written_out() -> None:
    odd = notice(labels={"cluster": "demo", "topic": "", "client_id": "10.0.0.1@\ud83d"})
    notified = only(alerts([odd], NOW_MS, LEASE_MS))["labels"]
    assert notified["client_id"] == "10.0.0.1@\\ud83d"
    assert "topic" not in notified


def test_what_changes_during_an_incident_is_no_label_and_a_thousand_queues_are_a_number() -> None:
    queues = tuple(f"broker-a:{number}" for number in range(1_000))
    before, after = notice(), notice(queues=queues, cause="frozen_client", summary="Other words.")
    first, second = (only(alerts([one], NOW_MS, LEASE_MS)) for one in (before, after))
    assert first["labels"] == second["labels"]
    assert second["annotations"]["queues"].endswith("broker-a:19 and 980 more")


def test_a_changed_severity_ends_the_alert_under_the_old_one() -> None:
    """Severity is a label, for routing; so the incident is another alert there, and one of the two must end."""
    with FakeServer() as vendor, closing(Alertmanager("am", vendor.root, lease_seconds=240)) as replica:
        for severity in ("warning", "critical", "critical"):
            assert replica.send([notice(severity=severity)], NOW_MS).verdict == "DELIVERED"
        sent = [[(alert["labels"]["severity"], alert["endsAt"]) for alert in given] for given in reports(vendor)]
    lease_end = iso(NOW_MS + 240_000)
    assert sent == [
        [("warning", lease_end)],
        [("warning", iso(NOW_MS)), ("critical", lease_end)],
        [("critical", lease_end)],
    ]


def test_the_old_severity_is_ended_again_until_that_has_arrived() -> None:
    with FakeServer() as vendor, closing(Alertmanager("am", vendor.root, lease_seconds=240)) as replica:
        replica.send([notice(severity="warning")], NOW_MS)
        vendor.script(Reply(500), Reset())
        answers = [replica.send([notice(severity="critical")], NOW_MS) for _ in range(3)]
        sizes = [len(given) for given in reports(vendor)]
    assert [answer.verdict for answer in answers] == ["RETRY", "RETRY", "DELIVERED"]
    assert sizes == [1, 2, 2, 2]


def test_a_lease_is_longer_where_more_is_open_than_one_call_takes() -> None:
    with FakeServer() as vendor, closing(Alertmanager("am", vendor.root, lease_seconds=240)) as replica:
        for first in range(0, 1_000, 100):
            replica.send([notice(number) for number in range(first, first + 100)], NOW_MS)
        ends = [given[0]["endsAt"] for given in reports(vendor)]
    assert ends[0] == iso(NOW_MS + 240_000)
    assert ends[-1] == iso(NOW_MS + 600_000)


@pytest.mark.parametrize("hours", [-24, -1, 1])
def test_a_lease_ends_by_alertmanagers_own_clock(hours: int) -> None:
    """Ours is set wrong: by it the alert would be over before it arrives, or open for hours."""
    theirs_ms = NOW_MS - hours * 3_600_000
    date = format_datetime(datetime.fromtimestamp(theirs_ms / 1000, UTC), usegmt=True)
    with FakeServer() as vendor, closing(Alertmanager("am", vendor.root, lease_seconds=240)) as replica:
        vendor.script(*[Reply(200, headers={"Date": date})] * 4)
        replica.send([notice()], NOW_MS)
        replica.send([notice()], NOW_MS)
        replica.send([notice()], theirs_ms)
        ends = [datetime.fromisoformat(only(given)["endsAt"]).timestamp() * 1000 for given in reports(vendor)]
    assert [round(end - theirs_ms - LEASE_MS, -5) for end in ends] == [0, 0, 0]


def test_no_alert_is_reported_before_alertmanagers_clock_is_known() -> None:
    """A storm set the relay's clock back an hour; the slow answer came too late, and all alerts were resolved."""
    date = format_datetime(datetime.fromtimestamp(NOW_MS / 1000, UTC), usegmt=True)
    with FakeServer() as vendor, closing(Alertmanager("am", vendor.root, lease_seconds=240)) as replica:
        vendor.script(Reset(), Reply(503), Reply(200, headers={"Date": date}), Reset())
        answers = [replica.send([notice()], NOW_MS - 3_600_000) for _ in range(3)]
        ends = [only(given)["endsAt"] for given in reports(vendor)]
    assert [answer.verdict for answer in answers] == ["RETRY"] * 3
    assert len(ends) == 1
    assert ends[0] > iso(NOW_MS)


def test_a_receiver_that_refuses_an_empty_list_gets_the_alerts() -> None:
    with FakeServer() as vendor, closing(Alertmanager("am", vendor.root, lease_seconds=240)) as replica:
        vendor.script(Reply(400))
        answers = [replica.send([notice()], NOW_MS) for _ in range(2)]
        assert len(vendor.received) == 3
    assert [answer.verdict for answer in answers] == ["DELIVERED"] * 2


@pytest.mark.parametrize("url", ["{root}", "{root}/", "{root}/prefix"])
def test_the_path_is_added_to_the_root(url: str) -> None:
    with FakeServer() as vendor:
        root = url.format(root=vendor.root)
        with closing(Alertmanager("am", root, lease_seconds=240, token=TOKEN)) as replica:
            replica.send([notice()], NOW_MS)
        _, request = vendor.received
    assert request.path.removeprefix("/prefix") == "/api/v2/alerts"
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
