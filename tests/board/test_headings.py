"""Headings name things in the words of the user, not by the names of classes."""

from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from streaming.board.pages import PAGES
from streaming.board.pages.page import View
from streaming.store.store import History
from tests.board.components import text_of, walk
from tests.board.modelled import NOW_MS
from tests.board.pictures import pages
from tests.words import CAMEL_CASE, PRODUCT_NAMES

HEADINGS = ("H1", "H2", "H3", "Dt", "Label", "Summary", "Caption")


@pytest.mark.parametrize("name", [name for name in pages() if name != "refused"])
def test_no_heading_is_a_class_name(name: str, modelled_warehouse: Path) -> None:
    path, _, query = pages()[name].partition("?")
    page = next(page for page in PAGES if page.path == path)
    body = page.body(View(History(modelled_warehouse), dict(parse_qsl(query)), NOW_MS))
    headings = {
        text_of(node)
        for node in walk(body)
        if type(node).__name__ in HEADINGS or (type(node).__name__ == "Th" and getattr(node, "scope", None) == "col")
    }
    assert headings
    found = {word for heading in headings for word in CAMEL_CASE.findall(heading)}
    assert found <= PRODUCT_NAMES
