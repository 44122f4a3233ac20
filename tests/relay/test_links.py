"""The ways from an alert to its incident and to its runbook arrive at every vendor, as each has them."""

from contextlib import closing
from typing import Any

import pytest
from structlog.testing import capture_logs

from conf.settings import Settings
from streaming.relay.notice import Links
from streaming.relay.own_alerts import watchdog
from streaming.relay.receivers import make_receivers
from streaming.relay.receivers.log import LogReceiver
from tests.relay.fakes import FakeServer, Reply
from tests.relay.notices import NOW_MS, notice

BOARD = "https://board.example.org/ops"
NOTICE = notice()
LINK = f"{BOARD}/incident?id={NOTICE.incident_id}"
RUNBOOK = f"/runbooks/{NOTICE.kind}#{NOTICE.cause}"
VENDORS = ["alertmanager", "webhook", "pagerduty", "dingtalk", "feishu"]


class Vendor(FakeServer):
    """Takes all, in every vendor's words."""

    def judge(self, request: Any) -> Reply:
        return Reply(200, {"status": "success", "errcode": 0, "code": 0})


def sent(vendor_type: str, monkeypatch: pytest.MonkeyPatch, **oncall: str) -> str:
    """The body of the request that a receiver of these settings makes of NOTICE."""
    monkeypatch.setenv("PD_KEY", "0123456789abcdef0123456789abcdef")
    key = {"routing_key_env": "PD_KEY"} if vendor_type == "pagerduty" else {}
    with Vendor() as vendor:
        settings = Settings.load(
            oncall={
                **oncall,
                "receivers": [{"name": "ops", "type": vendor_type, "url": vendor.url, **key}],
                "routes": [{"name": "all", "receivers": ["ops"]}],
            }
        )
        (receiver,) = make_receivers(settings.oncall, settings.runbooks_url).values()
        with closing(receiver):
            assert receiver.send([NOTICE], NOW_MS).verdict == "DELIVERED"
        return vendor.received[-1].body.decode()


def test_an_id_of_any_characters_stays_one_value_of_the_query() -> None:
    odd = notice(incident_id="a&b=c#d)é")
    assert Links("http://b").incident(odd) == "http://b/incident?id=a%26b%3Dc%23d%29%C3%A9"


def test_the_watchdog_is_no_incident_and_leads_to_the_first_page() -> None:
    assert Links(BOARD).incident(watchdog(NOW_MS, "the relay runs")) == f"{BOARD}/"


@pytest.mark.parametrize("vendor_type", VENDORS)
def test_every_vendor_gets_the_page_of_the_incident_and_the_runbook_of_its_kind(
    vendor_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The board's own address, that which people have for it, or pages of their own."""
    pages = {"runbook_base_url": "https://wiki/{kind}.html"}
    for oncall, url in (
        ({}, f"http://127.0.0.1:8050{RUNBOOK}"),
        ({"board_url": f"{BOARD}/"}, f"{BOARD}{RUNBOOK}"),
        ({"board_url": BOARD, **pages}, f"https://wiki/{NOTICE.kind}.html#{NOTICE.cause}"),
    ):
        body = sent(vendor_type, monkeypatch, **oncall)
        assert url in body
        assert ("/incident?id=" in body) is (LINK in body) is bool(oncall)


def test_a_cause_that_its_page_tells_apart_is_where_the_link_leads_and_another_is_not() -> None:
    links = Links(runbooks_url="http://b/runbooks")
    starved = notice(kind="starved_queue", cause="frozen_client")
    assert links.runbook(starved) == "http://b/runbooks/starved_queue#frozen_client"
    assert links.runbook(notice(kind="starved_queue", cause="of_a_later_release")) == "http://b/runbooks/starved_queue"
    assert links.runbook(notice(kind="of_a_later_release")) is None
    assert links.runbook(watchdog(NOW_MS, "the relay runs")) == "http://b/runbooks/watchdog"


def test_the_log_says_it_too() -> None:
    with capture_logs() as lines:
        LogReceiver("log", Links(runbooks_url="http://b/runbooks")).send([NOTICE], NOW_MS)
    assert [line["runbook_url"] for line in lines] == [f"http://b{RUNBOOK}"]


def test_where_nobody_says_where_the_board_is_its_own_address_is_told() -> None:
    def root(**board: Any) -> str:
        return Settings.load(board=board).runbooks_url

    assert root(port=9000) == "http://127.0.0.1:9000/runbooks"
    assert root(host="::1") == "http://[::1]:8050/runbooks"
    assert root(host="0.0.0.0", port=0) == "http://127.0.0.1:8050/runbooks"  # noqa: S104  # no socket is bound


@pytest.mark.parametrize("key", ["board_url", "runbook_base_url"])
def test_a_slash_at_the_end_of_an_address_is_dropped(key: str) -> None:
    assert getattr(Settings.load(oncall={key: "http://[::1]:8050/"}).oncall, key) == "http://[::1]:8050"
