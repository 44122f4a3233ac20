"""The board in Chinese: no English sentence on any page, and the same values for programs as in English."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from streaming.board.pages import PAGES
from streaming.board.web.access import AccessControl
from tests.board.components import Element, read_html, text_of, walk
from tests.board.modelled import write_modelled
from tests.board.pictures import pages
from tests.board.tables import NOW_MS, alert, assignment, backlog, client_of, health, member, silence, write
from tests.support.chinese import HAN
from tests.support.offenders import assert_none

ASSETS = Path(__file__).parents[2] / "streaming/board/assets"

MUTE = {"match": {"cluster": ["pro*"]}, "days": ["mon"], "from": "22:00", "to": "06:00", "time_zone": "Asia/Shanghai"}

ENGLISH = re.compile(r"(?:\b[A-Za-z][a-z']* ){2}[a-z']+")
"""Three words in a row."""

NAMES = frozenset({"balancewatch", "Broker", "ClientId", "SDK"})
"""Of the product and of RocketMQ, which headings keep."""

LABELS = frozenset({"kind", "severity", "cluster", "consumer_group", "topic", "broker_name", "client_id", "cause"})

ODD = {
    "no parameter": "/alerts?foo=1",
    "no duration": "/alerts?since=x",
    "no time": "/group?group=order-service&at=x",
    "too early": "/history?cluster=twins&group=order-service&at=2000-01-01",
    "no choice": "/alerts?severity=x",
    "no page": "/alerts?page=0",
    "no group": "/group?group=x",
    "no incident": "/incident?id=x",
    "several clusters": "/group?group=order-service",
    "nothing found": "/groups?q=x",
    "filtered": "/alerts?kind=x",
    "past": "/group?cluster=twins&group=order-service&at=2m",
    "past band": "/history?cluster=twins&group=order-service&at=2m",
    "all silences": "/silences?show=all",
    "empty period": "/quality?since=1m",
}


@pytest.fixture(scope="module")
def modelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modelled incidents with Chinese texts."""
    warehouse = tmp_path_factory.mktemp("chinese") / "warehouse"
    write_modelled(warehouse, "zh")
    return warehouse


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More incidents than lanes, every verdict, a backlog, a silent cluster."""
    alerts = [alert(f"i{number}", summary="摘要。", advice="建议。") for number in range(60)]
    verdicts = ("OK", "UNOWNED", "NOT_CONSUMED", "MISPLACED", "DOUBLE_CONSUMED", "UNKNOWN", "NOT_JUDGED")
    rows = {
        "alerts": [*alerts, silence(1_200_000, summary="摘要。", advice="建议。")],
        "assignments": [assignment(number, verdict) for number, verdict in enumerate(verdicts)],
        "backlogs": [backlog(1, 5_000)],
        "memberships": [member("c@1", "10.0.0.1:1")],
        "broker_health": [health(60_000, 1), health(600_000, 3, broker_name="broker-b")],
    }
    return write(tmp_path_factory.mktemp("crowded"), rows)


def chinese(warehouse: Path, **board: Any) -> TestClient:
    return client_of(warehouse, language="zh", **board)


def texts_of(element: Element) -> Iterator[str]:
    """Text nodes and labels, without code."""
    if element.name in ("code", "pre", "script", "style"):
        return
    yield from (element.get(name) for name in ("aria-label", "title", "placeholder"))
    for child in element.children:
        yield from texts_of(child) if isinstance(child, Element) else [text_of(child)]


def is_heading(element: Element) -> bool:
    is_column = element.name == "th" and element.get("scope") == "col" and element.get("class") != "client"
    is_link = element.get("class") == "nav-link"
    return is_column or is_link or element.name in ("h2", "caption", "button", "label", "summary")


def check(html: str) -> None:
    page = read_html(html)
    assert next(element for element in walk(page) if element.name == "html")["lang"] == "zh"
    assert_none(text for text in texts_of(page) if ENGLISH.search(text))
    options = (text_of(element) for element in walk(page) if element.name == "option")
    assert_none(text for text in options if re.search(r"\d [a-z]|[a-z] [a-z]", text))
    headings = (text_of(element) for element in walk(page) if is_heading(element) and element.get("id") != "theme")
    assert_none(text for text in headings if not re.search(HAN, text) and text not in NAMES | LABELS)


@pytest.mark.parametrize("path", [*pages().values(), *ODD.values()], ids=[*pages(), *ODD])
def test_no_page_has_an_english_sentence(path: str, modelled: Path) -> None:
    check(chinese(modelled, can_write=True, mutes=[MUTE]).get(path).text)


@pytest.mark.parametrize("path", ["/", "/alerts", "/groups", "/group?group=billing", "/brokers", "/incident?id=i1"])
def test_crowded_and_stale_pages_have_none_either(path: str, crowded: Path) -> None:
    check(chinese(crowded).get(path).text)
    check(chinese(crowded, now_ms=NOW_MS + 3_600_000).get(path).text)


def test_neither_have_the_login_refusals_and_a_board_without_tables(crowded: Path, tmp_path: Path) -> None:
    check(client_of(crowded, AccessControl(frozenset({"127.0.0.1"}), "t" * 20), language="zh").get("/?token=x").text)
    check(chinese(tmp_path).get("/").text)
    check(chinese(crowded).get("/runbooks/x").text)
    assert "没有此页面" in chinese(crowded).get("/x").text
    signed = {"author": "甲", "note": "乙"}
    for form in ({}, signed, {**signed, "kind": "x"}, {**signed, "cluster": "x", "own": "x"}):
        answer = chinese(crowded, can_write=True).post("/incident/silence?id=i1", data=form)
        assert answer.status_code == 400
        check(answer.text)


def test_programs_get_the_same_values_as_from_an_english_board(modelled: Path) -> None:
    for page in PAGES:
        path = "/api/" + page.name + "?" + pages()[page.name].partition("?")[2]
        assert chinese(modelled).get(path).text == client_of(modelled).get(path).text


def test_the_frame_has_each_text_of_the_scripts(modelled: Path) -> None:
    said = {text for path in ASSETS.glob("*.js") for text in re.findall(r'say\("([^"]+)"', path.read_text())}
    assert "data-texts" not in client_of(modelled).get("/").text
    (frame,) = (one for one in walk(read_html(chinese(modelled).get("/").text)) if one.name == "html")
    texts = json.loads(frame["data-texts"])
    assert texts.keys() == said
    assert_none(text for text in texts.values() if not re.search(HAN, text))
