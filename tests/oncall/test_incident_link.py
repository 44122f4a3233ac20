"""The way from an alert to its story: what is set in `oncall.board_url` arrives at every vendor, as each has it."""

import re
from contextlib import closing
from typing import Any

import pytest

from conf.settings import Settings, SettingsError
from streaming.oncall.incident_link import incident_link
from streaming.oncall.own_alerts import watchdog
from streaming.oncall.switchboard import make_receivers
from tests.oncall.fakes import FakeServer, Reply
from tests.oncall.notices import NOW_MS, notice

BOARD = "https://board.example.org/ops"
NOTICE = notice()
LINK = f"{BOARD}/incident?id={NOTICE.incident_id}"


class Vendor(FakeServer):
    """Takes all, in every vendor's words."""

    def judge(self, request: Any) -> Reply:
        return Reply(200, {"status": "success", "errcode": 0, "code": 0})


def sent(vendor_type: str, board_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The body of the request that a receiver of these settings makes of NOTICE."""
    monkeypatch.setenv("PD_KEY", "0123456789abcdef0123456789abcdef")
    key = {"routing_key_env": "PD_KEY"} if vendor_type == "pagerduty" else {}
    with Vendor() as vendor:
        settings = Settings.load(
            oncall={
                "board_url": board_url,
                "receivers": [{"name": "ops", "type": vendor_type, "url": vendor.url, **key}],
                "routes": [{"name": "all", "receivers": ["ops"]}],
            }
        ).oncall
        (receiver,) = make_receivers(settings).values()
        with closing(receiver):
            assert receiver.send([NOTICE], NOW_MS).verdict == "DELIVERED"
        return vendor.received[0].fields


def links(vendor_type: str, body: Any) -> list[str | None]:
    """Where this vendor looks for them."""
    match vendor_type:
        case "alertmanager":
            return [body[0].get("generatorURL")]
        case "webhook":
            return [body["alerts"][0]["generatorURL"] or None]
        case "pagerduty":
            return [body.get("client_url"), *(one["href"] for one in body.get("links", []))]
        case "dingtalk":
            text = body["markdown"]["text"]
            return [found[1] if (found := re.search(r"\[Incident\]\((.+)\)$", text)) else None]
        case _:
            text = body["card"]["elements"][0]["text"]["content"]
            return [found[1] if (found := re.search(r"^Incident: (\S+)$", text, re.M)) else None]


@pytest.mark.parametrize("vendor_type", ["alertmanager", "webhook", "pagerduty", "dingtalk", "feishu"])
def test_every_vendor_is_given_the_incidents_page_where_the_board_is_known(
    vendor_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(links(vendor_type, sent(vendor_type, f"{BOARD}/", monkeypatch))) == {LINK}
    assert links(vendor_type, sent(vendor_type, "", monkeypatch)) == [None]


def test_an_id_of_any_characters_stays_one_value_of_the_query() -> None:
    odd = notice(incident_id="a&b=c#d)é")
    assert incident_link("http://b", odd) == "http://b/incident?id=a%26b%3Dc%23d%29%C3%A9"


def test_the_watchdog_is_no_incident_and_leads_to_the_first_page() -> None:
    assert incident_link(BOARD, watchdog(NOW_MS, NOW_MS, "the relay runs")) == f"{BOARD}/"


@pytest.mark.parametrize("url", ["board.example.org", "ftp://b", "https://b/?x=1", "https://u:p@b", "http://b/a b"])
def test_what_is_no_address_of_a_board_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match=r"oncall\.board_url.*give the board's address as http"):
        Settings.load(oncall={"board_url": url})
    assert Settings.load(oncall={"board_url": "http://[::1]:8050/"}).oncall.board_url == "http://[::1]:8050"
