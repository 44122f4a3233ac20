"""Headings name things in the words of the user, not by the names of classes."""

from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from streaming.board.page import View
from streaming.board.pages import PAGES
from streaming.store.store import History
from tests.board.components import read_html, text_of, walk
from tests.board.pictures import pages
from tests.board.tables import NOW_MS
from tests.support.words import CAMEL_CASE, PRODUCT_NAMES

HEADINGS = ("h1", "h2", "h3", "dt", "label", "summary", "caption")


@pytest.mark.parametrize("name", [name for name in pages() if name != "refused"])
def test_no_heading_is_a_class_name(name: str, modelled_warehouse: Path) -> None:
    path, _, query = pages()[name].partition("?")
    page = next(page for page in PAGES if page.path == path)
    body = read_html(page.body(View(History(modelled_warehouse), dict(parse_qsl(query)), NOW_MS)))
    headings = {text_of(node) for node in walk(body) if node.name in HEADINGS or node.get("scope") == "col"}
    assert headings
    found = {word for heading in headings for word in CAMEL_CASE.findall(heading)}
    assert found <= PRODUCT_NAMES
