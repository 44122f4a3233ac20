"""Rows that cannot be read are in no view, and each page that tells of their table says so."""

import re
from pathlib import Path
from typing import Any

import pytest

from schemas.tables import ALERTS, QUARANTINE, TABLES
from schemas.views import VIEWS
from streaming.board.pages import PAGES
from streaming.store.store import History
from tests.board.components import read_html, text_of
from tests.board.pictures import pages
from tests.board.tables import NOW_MS, alert, assignment, board_of, write
from tests.relay.test_unreadable_rows import blank

ROWS = r"[0-9,]+ rows? of [a-z_]+"
SENTENCE = re.compile(rf"({ROWS}(?: and {ROWS})* cannot be read and (?:is|are) left out)\.")
ALERTS_LEFT_OUT = "2 rows of alerts cannot be read and are left out"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two of the alerts and one of the quarantine cannot be read."""
    rows = {"alerts": [alert("good")], "assignments": [assignment(0, "OK")]}
    warehouse = write(tmp_path_factory.mktemp("w"), rows)
    for name in ("bad", "<b>worse\u202e"):
        blank(warehouse, ALERTS, {**alert(name), "completeness": 1.0, "flaps": 0, "is_flapping": False}, "summary")
    message = {"topic": "t", "partition": 0, "offset": 1, "raw": b"", "reasons": [], "ingest_time": NOW_MS}
    blank(warehouse, QUARANTINE, message, "reasons")
    return warehouse


def rendered(warehouse: Path, path: str) -> tuple[str, dict[str, Any]]:
    """Return the page's text and the announcement that goes with it."""
    place, _, search = path.partition("?")
    board = board_of(warehouse)
    body, _, alerts = board.render(board.pages[place], search)
    assert body is not None
    assert alerts is not None
    return text_of(read_html(body.html)), alerts


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/", "2 rows of alerts and 1 row of quarantine cannot be read and are left out"),
        *((path, ALERTS_LEFT_OUT) for path in ("/alerts", "/groups", "/group?group=billing&topic=orders", "/brokers")),
        ("/quality", "1 row of quarantine cannot be read and is left out"),
    ],
)
def test_a_page_says_what_cannot_be_read_of_the_tables_it_reports_of(warehouse: Path, path: str, said: str) -> None:
    text, alerts = rendered(warehouse, path)
    assert SENTENCE.findall(text) == [said]
    assert "worse" not in text
    assert (alerts["left_out"], alerts["count"]) == ({"alerts": 2, "quarantine": 1}, 1)


def test_where_all_can_be_read_nothing_is_said(tmp_path: Path) -> None:
    text, alerts = rendered(write(tmp_path / "w", {"alerts": [alert("good")]}), "/")
    assert SENTENCE.findall(text) == []
    assert "left_out" not in alerts


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The tables that are asked, views as what they stand on."""
    names: set[str] = set()
    word = re.compile(rf"\b({'|'.join([*TABLES, *VIEWS])})(?:_now|_at)?\b")
    sound = History.query

    def query(self: History, sql: str, *more: Any) -> Any:
        found = set(word.findall(re.sub("'[^']*'", "", sql)))
        for view in found & VIEWS.keys():
            found |= set(word.findall(VIEWS[view].sql))
        names.update(found & TABLES.keys())
        return sound(self, sql, *more)

    monkeypatch.setattr(History, "query", query)
    return names


def test_a_page_names_every_table_that_it_asks(modelled_warehouse: Path, asked: set[str]) -> None:
    board = board_of(modelled_warehouse)
    by_path = {page.path: page for page in PAGES}
    seen = board.tables.look()
    assert seen.newest_ms, "read once, for every page"
    for name, path in pages().items():
        place, _, search = path.partition("?")
        if name != "refused":
            asked.clear()
            board._body(by_path[place], search, seen, NOW_MS, "en", "")
            assert asked, place
            assert asked <= by_path[place].tables, place
