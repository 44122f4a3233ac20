"""The callback behind every page: what is rendered when, and what is said where nothing can be shown."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dash import html

from conf.settings import Settings
from schemas.tables import TABLES
from streaming.board.pages import PAGES
from streaming.board.pages.page import Page, View
from streaming.board.web.app import MOST_ANNOUNCED, Board
from streaming.board.web.tables import Tables
from streaming.store.store import WarehouseError
from tests.board.tables import NOW_MS, alert, assignment, write


def text_of(node: Any) -> str:
    """The text of a rendered tree."""
    if isinstance(node, dict):
        return text_of(node["props"].get("children"))
    return " ".join(map(text_of, node)) if isinstance(node, list) else "" if node is None else str(node)


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every component of a rendered tree."""
    if isinstance(node, dict):
        yield node
        yield from nodes(node["props"].get("children"))
    elif isinstance(node, list):
        for child in node:
            yield from nodes(child)


class Shown:
    """A board with one page that counts its calls; the clock and the tables' once-a-second are out of the way."""

    def __init__(self, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("streaming.board.web.tables.LOOK_SECONDS", 0.0)
        self.now_ms = NOW_MS
        self.calls = 0
        self.error: Exception | None = None
        page = Page("one", "/", "One", self._read, html.P, nav="One", parameters=frozenset({"kind"}))
        self.board = Board(Settings.load().board, warehouse, lambda: self.now_ms, (page,))

    def _read(self, view: View) -> str:
        self.calls += 1
        if self.error is not None:
            raise self.error
        rows = view.history.rows("SELECT * FROM alerts")
        return f"{view.asked.get('kind', 'all')}: {len(rows)}"

    def text(self, path: str = "/", search: str = "", shown: str | None = None) -> str:
        body, _, _ = self.board.render(path, search, shown)
        return "" if body is None else text_of(json.loads(body))


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return write(tmp_path / "warehouse", {"alerts": [alert("one")]})


@pytest.fixture
def shown(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> Shown:
    return Shown(warehouse, monkeypatch)


def test_a_body_is_rendered_again_only_when_the_tables_or_the_minute_are_others(shown: Shown, warehouse: Path) -> None:
    body, key, alerts = shown.board.render("/", "", None)
    assert body is not None
    assert alerts == {"count": 1, "newest": {"one": "starved_queue, billing"}}
    assert shown.board.render("/", "", key) == (None, key, None)
    assert shown.calls == 1
    write(warehouse, {"alerts": [alert("two")]}, 1)
    body, other, alerts = shown.board.render("/", "", key)
    assert alerts is not None
    assert (body is not None, other != key, set(alerts["newest"])) == (True, True, {"one", "two"})
    shown.now_ms += 60_000
    assert shown.board.render("/", "", other)[0] is not None
    assert shown.calls == 3


def test_viewers_of_one_url_share_what_was_rendered(shown: Shown) -> None:
    for _ in range(5):
        assert shown.text() == "all: 1"
    assert shown.calls == 1
    assert shown.text(search="?kind=x") == "x: 1"
    assert shown.calls == 2


def test_the_canary_is_not_announced(shown: Shown, warehouse: Path) -> None:
    write(warehouse, {"alerts": [alert("canary", cluster="balancewatch_canary")]}, 1)
    _, _, alerts = shown.board.render("/", "", None)
    assert alerts is not None
    assert (alerts["count"], set(alerts["newest"])) == (1, {"one"})


def test_all_that_fire_are_counted_in_the_title_though_only_the_newest_are_named(shown: Shown, warehouse: Path) -> None:
    write(warehouse, {"alerts": [alert(f"more-{number}") for number in range(MOST_ANNOUNCED + 50)]}, 1)
    _, _, alerts = shown.board.render("/", "", None)
    assert alerts is not None
    assert (alerts["count"], len(alerts["newest"])) == (MOST_ANNOUNCED + 51, MOST_ANNOUNCED)


def test_an_unknown_page_says_so(shown: Shown) -> None:
    assert "/nothing is not a page of the board." in shown.text("/nothing")


def test_an_unknown_parameter_is_an_error_message(shown: Shown) -> None:
    assert "'colour' is not a parameter of this page; allowed: kind." in shown.text(search="?colour=red")


@pytest.mark.parametrize(
    ("path", "link"),
    [
        ("/incident", ("All alerts", "/alerts")),
        ("/group", ("All groups", "/groups")),
        ("/history", ("All groups", "/groups")),
    ],
)
def test_a_page_that_needs_a_parameter_links_to_the_list_of_them(
    path: str, link: tuple[str, str], warehouse: Path
) -> None:
    body, _, _ = Board(Settings.load().board, warehouse, lambda: NOW_MS).render(path, "", None)
    links = [node["props"] for node in nodes(json.loads(body or "{}")) if node["type"] == "A"]
    assert [(props["children"], props["href"]) for props in links] == [link]


def test_an_error_in_a_page_is_one_sentence_and_nothing_of_the_stack(shown: Shown) -> None:
    shown.error = RuntimeError("secret detail")
    assert "This page failed; the log of `balancewatch board` says why." in shown.text()
    assert "secret detail" not in shown.text()


def test_files_that_vanish_between_look_and_question_are_looked_for_again(shown: Shown) -> None:
    """As when the tables are vacuumed meanwhile: one retry, then a sentence."""
    shown.error = WarehouseError("No files found")
    assert "The tables cannot be read" in shown.text()
    assert shown.calls == 2


def test_without_tables_it_says_what_to_run_and_finds_them_when_they_appear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Shown(tmp_path / "later", monkeypatch)
    text = shown.text()
    assert "no tables found" in text
    assert "balancewatch run" in text
    write(tmp_path / "later", {"alerts": [alert("one")]})
    assert shown.text() == "all: 1"


def test_tables_of_an_older_release_lack_columns_and_are_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column that the files lack is null."""
    from deltalake import write_deltalake  # noqa: PLC0415  # this test alone writes a table past the contract

    from streaming.warehouse.rows import arrow_table  # noqa: PLC0415  # the same

    old = arrow_table([alert("one")], TABLES["alerts"], 0).drop_columns(["reason", "flaps", "fired_at"])
    write_deltalake(str(tmp_path / "warehouse" / "alerts"), old)
    assert Shown(tmp_path / "warehouse", monkeypatch).text() == "all: 1"


def test_the_tables_are_looked_at_once_for_all_who_ask_at_a_time(warehouse: Path) -> None:
    """Fifty viewers within a second cost one look."""
    tables = Tables(warehouse)
    first = tables.look().history
    assert first is not None
    looks = 0
    refresh = first.refresh

    def count() -> bool:
        nonlocal looks
        looks += 1
        return refresh()

    first.refresh = count  # type: ignore[method-assign]  # counted, then done
    threads = [threading.Thread(target=tables.look) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert looks <= 1


def test_every_page_reports_stale_data(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Stale tables without firing alerts are no good news."""
    open_since = alert("one", ago_ms=0)
    write(tmp_path, {"assignments": [assignment(0, "OK", changed_at=NOW_MS)], "alerts": [open_since]})
    search = {"/group": "?group=billing", "/history": "?group=billing", "/incident": "?id=one"}
    soon = Board(Settings.load().board, tmp_path, lambda: NOW_MS + 1_000)
    late = Board(Settings.load().board, tmp_path, lambda: NOW_MS + 3 * 3_600_000)
    for page in PAGES:
        with subtests.test(page.path):
            new, old = (
                text_of(json.loads(board.render(page.path, search.get(page.path, ""), None)[0] or "{}"))
                for board in (soon, late)
            )
            assert "Stale data" not in new
            assert "Stale data: the newest row is 3 h old." in old
            assert "No alert is firing." not in old


def test_a_row_from_the_future_counts_as_of_now(tmp_path: Path) -> None:
    """No page says that the data are of a time to come, and none calls them old."""
    write(tmp_path, {"alerts": [alert("one", ago_ms=-3_600_000)]})
    body, _, _ = Board(Settings.load().board, tmp_path, lambda: NOW_MS).render("/", "", None)
    text = text_of(json.loads(body or "{}"))
    assert "Stale data" not in text
    assert "Last data now" in " ".join(text.split())
