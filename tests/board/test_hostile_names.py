"""Names that a browser would interpret or hide: pages show them written out, and no figure makes a link of one."""

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from conf.settings import Settings
from streaming.board.pages import PAGES
from streaming.board.web.app import Board
from streaming.warehouse.writer import append_rows
from tests.board.modelled import NOW_MS, played, poor, reported
from tests.offenders import assert_none
from tests.row_writer import RowWriter

LINK = "<a href=https://evil>x</a>&#60;b>"
UNSEEN = "\u202egnp\u2066\u200b\u2028\x9b\x7f"
NAMED = re.compile(r"\b(broker-[a-z]|10\.\d+\.\d+\.\d+@[\w#-]+)")
"""Brokers and clients. Groups and topics keep theirs: their pages are asked for by them."""

TEXTS = ("hovertext", "hovertemplate", "text", "ticktext", "title")
"""What Plotly reads tags and entities in."""


def hostile(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: hostile(one) for name, one in value.items()}
    if isinstance(value, list):
        return [hostile(one) for one in value]
    return NAMED.sub(lambda one: one[0] + LINK + UNSEEN, value) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every page that a link of another leads to, as a browser gets it; one of each set of parameters."""
    warehouse = tmp_path_factory.mktemp("hostile")
    append_rows(RowWriter(warehouse), hostile(played() | reported() | poor()), "modelled", 0)
    board = Board(Settings.load().board, warehouse, lambda: NOW_MS)
    found: dict[str, Any] = {}
    kinds: set[Any] = set()
    waiting = [page.path for page in PAGES if page.nav]
    while waiting:
        url = urlsplit(waiting.pop(0))
        kind = (url.path, tuple(sorted(part.partition("=")[0] for part in url.query.split("&"))))
        if kind in kinds or len(found) > 40:
            continue
        kinds.add(kind)
        body, _, alerts = board.render(url.path, f"?{url.query}" if url.query else "", None)
        found[url.geturl()] = [json.loads(body or "null"), alerts]
        waiting += [one for name, one in strings(found[url.geturl()]) if name == "href" and one.startswith("/")]
    return found


def strings(node: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Each text with the name it has; those of a list have the list's."""
    if isinstance(node, dict):
        for key, inner in node.items():
            yield "", str(key)
            yield from strings(inner, key)
    elif isinstance(node, list):
        for inner in node:
            yield from strings(inner, name)
    elif isinstance(node, str):
        yield name, node


def figures(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        if node.get("type") == "Graph":
            yield node["props"]["figure"]
        for inner in node.values():
            yield from figures(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from figures(inner)


def test_every_page_is_there(bodies: dict[str, Any]) -> None:
    assert {urlsplit(url).path for url in bodies} >= {page.path for page in PAGES}
    assert [url for url, body in bodies.items() if "This page failed" in json.dumps(body)] == []
    assert sum("gnp" in json.dumps(body) for body in bodies.values()) > 5


def test_what_is_not_seen_or_turns_the_direction_is_written_out(bodies: dict[str, Any]) -> None:
    assert_none(
        f"{url}: {text[:200]!r}"
        for url, body in bodies.items()
        for _, text in strings(body)
        if {unicodedata.category(one) for one in text.replace("\n", "").replace("\t", "")} & {"Cc", "Cf", "Zl", "Zp"}
    )


def test_a_figure_reads_no_tag_and_no_entity_out_of_a_name(bodies: dict[str, Any]) -> None:
    labels = [
        (url, text)
        for url, body in bodies.items()
        for figure in figures(body)
        for name, text in strings(figure)
        if name in TEXTS
    ]
    assert sum("evil" in text or "&lt;a" in text for _, text in labels) > 10
    assert_none(
        f"{url}: {text!r}" for url, text in labels if re.search(r"<(?!/?b>|br>|/?extra>)|&(?!amp;|lt;|gt;)", text)
    )
