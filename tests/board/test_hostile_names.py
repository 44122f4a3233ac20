"""Names that a browser would interpret or hide: pages show them written out, and none becomes an element."""

import re
import unicodedata
from typing import Any
from urllib.parse import urlsplit

import pytest

from streaming.board.pages import PAGES
from streaming.warehouse.writer import append_rows
from tests.board.components import links_of, read_html, walk
from tests.board.modelled import played, poor, reported
from tests.board.tables import client_of
from tests.support.offenders import assert_none
from tests.support.row_writer import RowWriter

LINK = "<a href=https://evil>x</a>&#60;b>"
UNSEEN = "\u202egnp\u2066\u200b\u2028\x9b\x7f"
NAMED = re.compile(r"\b(broker-[a-z]|10\.\d+\.\d+\.\d+@[\w#-]+)")
"""Brokers and clients. Groups and topics keep theirs: their pages are asked for by them."""


def hostile(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: hostile(one) for name, one in value.items()}
    if isinstance(value, list):
        return [hostile(one) for one in value]
    return NAMED.sub(lambda one: one[0] + LINK + UNSEEN, value) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every page that a link of another leads to, as a browser gets it; one of each set of parameters."""
    warehouse = tmp_path_factory.mktemp("hostile")
    append_rows(RowWriter(warehouse), hostile(played() | reported() | poor()), "modelled", 0)
    client = client_of(warehouse)
    found: dict[str, str] = {}
    kinds: set[Any] = set()
    waiting = [page.path for page in PAGES if page.nav]
    while waiting:
        url = urlsplit(waiting.pop(0))
        kind = (url.path, tuple(sorted(part.partition("=")[0] for part in url.query.split("&"))))
        if kind in kinds or len(found) > 40 or url.path.startswith("/runbooks"):
            continue
        kinds.add(kind)
        found[url.geturl()] = client.get(url.geturl()).text
        waiting += [one for one in links_of(read_html(found[url.geturl()])) if one.startswith("/")]
    return found


def test_every_page_writes_hostile_names_out_and_makes_no_element_of_them(bodies: dict[str, str]) -> None:
    assert {urlsplit(url).path for url in bodies} >= {page.path for page in PAGES}
    assert [url for url, body in bodies.items() if "This page failed" in body] == []
    assert sum("gnp" in body for body in bodies.values()) > 5
    unseen = {"Cc", "Cf", "Zl", "Zp"}
    assert_none(
        f"{url}: {line[:200]!r}"
        for url, body in bodies.items()
        for line in body.split("\n")
        if {unicodedata.category(one) for one in line.replace("\t", "")} & unseen
    )
    assert sum("evil" in body for body in bodies.values()) > 5
    assert sum("&amp;#60;b" in body for body in bodies.values()) > 5
    elements = [(url, element) for url, body in bodies.items() for element in walk(read_html(body))]
    assert_none(f"{url}: {one.attributes}" for url, one in elements if "evil" in one.get("href").partition("?")[0])
    assert_none(f"{url}: {one.name}" for url, one in elements if one.name in ("b", "x") or one.get("onclick"))
