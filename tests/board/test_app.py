"""What every page answers: rendered when, as HTML and as JSON, and a sentence where nothing can be shown."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from conf.settings import Settings
from schemas.tables import TABLES
from streaming.board.page import Page, View
from streaming.board.pages import PAGES
from streaming.board.web.access import AccessControl
from streaming.board.web.app import Board, make_app
from streaming.board.web.tables import MOST_ANNOUNCED, Tables
from streaming.warehouse.warehouse_error import WarehouseError
from tests.board.components import links_of, read_html, text_of
from tests.board.tables import MINUTE, NOW_MS, alert, assignment, board_of, client_of, write


class Rows(Page):
    """A page without a template."""

    def body(self, view: View) -> str:
        return f"<p>{self.read(view)}</p>"


class Shown:
    """A board with one page that counts its calls; the clock and the tables' once-a-second are out of the way."""

    def __init__(self, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("streaming.board.web.tables.LOOK_SECONDS", 0.0)
        self.now_ms = NOW_MS
        self.calls = 0
        self.error: Exception | None = None
        self.page = Rows("one", "/", "One", self._read, nav="One", parameters=frozenset({"kind"}))
        self.board = Board(Settings.load(paths={"warehouse": warehouse}), lambda: self.now_ms, (self.page,))

    def _read(self, view: View) -> str:
        self.calls += 1
        if self.error is not None:
            raise self.error
        rows = view.history.rows("SELECT * FROM alerts")
        return f"{view.asked.get('kind', 'all')}: {len(rows)}"

    def render(self, search: str = "", shown: str | None = None) -> Any:
        return self.board.render(self.page, search, shown)

    def text(self, search: str = "") -> str:
        return text_of(read_html(self.render(search)[0].html))


def text_at(board: Board, path: str, search: str = "") -> str:
    body, _, _ = board.render(board.pages[path], search)
    assert body is not None
    return text_of(read_html(body.html))


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return write(tmp_path / "warehouse", {"alerts": [alert("one")]})


@pytest.fixture(scope="module")
def prod(tmp_path_factory: pytest.TempPathFactory) -> Board:
    """A board of one group, billing, with a queue of topic orders in cluster prod."""
    rows = {"alerts": [alert("one")], "assignments": [assignment(0, "OK")]}
    return board_of(write(tmp_path_factory.mktemp("prod"), rows))


INVALID_FILTERS = {"since": "soon", "state": "LOUD", "page": "0", "inhibited": "maybe"}


@pytest.fixture
def shown(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> Shown:
    return Shown(warehouse, monkeypatch)


def test_a_body_is_rendered_again_only_when_the_tables_or_the_minute_are_others(shown: Shown, warehouse: Path) -> None:
    body, key, alerts = shown.render()
    assert body is not None
    assert alerts == {"count": 1, "newest": {"one": "starved_queue, billing"}}
    assert shown.render(shown=key) == (None, key, None)
    assert shown.calls == 1
    write(warehouse, {"alerts": [alert("two")]}, 1)
    body, other, alerts = shown.render(shown=key)
    assert (body is not None, other != key, set(alerts["newest"])) == (True, True, {"one", "two"})
    shown.now_ms += 60_000
    assert shown.render(shown=other)[0] is not None
    assert shown.calls == 3


def test_viewers_of_one_url_share_what_was_rendered(shown: Shown) -> None:
    for _ in range(5):
        assert shown.text() == "all: 1"
    assert shown.calls == 1
    assert shown.text("kind=x") == "x: 1"
    assert shown.calls == 2


def test_the_title_counts_all_that_fire_but_the_canary_and_names_the_newest(shown: Shown, warehouse: Path) -> None:
    write(warehouse, {"alerts": [alert("canary", cluster="balancewatch_canary")]}, 1)
    _, _, alerts = shown.render()
    assert (alerts["count"], set(alerts["newest"])) == (1, {"one"})
    write(warehouse, {"alerts": [alert(f"more-{number}") for number in range(MOST_ANNOUNCED + 50)]}, 2)
    _, _, alerts = shown.render()
    assert (alerts["count"], len(alerts["newest"])) == (MOST_ANNOUNCED + 51, MOST_ANNOUNCED)


def test_errors_are_one_sentence_and_nothing_of_the_stack(shown: Shown) -> None:
    sentence = "'colour' is not a parameter of this page; allowed: kind."
    assert sentence in shown.text("colour=red")
    text, status = shown.board.value_json(shown.page, "colour=red")
    assert (json.loads(text), status) == ({"error": sentence}, 400)
    shown.error = RuntimeError("secret detail")
    assert "This page failed; the log of `balancewatch board` says why." in shown.text()
    assert "secret detail" not in shown.text()
    text, status = shown.board.value_json(shown.page, "")
    assert status == 500
    assert "secret detail" not in text


def test_files_that_vanish_between_look_and_question_are_looked_for_again(shown: Shown) -> None:
    """As when the tables are vacuumed meanwhile: one retry, then a sentence."""
    shown.error = WarehouseError("No files found")
    assert "The tables cannot be read" in shown.text()
    assert shown.calls == 2
    assert shown.board.value_json(shown.page, "")[1] == 503


@pytest.mark.parametrize(
    ("path", "link"),
    [("/incident", "/alerts"), ("/group", "/groups"), ("/history", "/groups")],
)
def test_a_page_that_needs_a_parameter_links_to_the_list_of_them(path: str, link: str, warehouse: Path) -> None:
    board = board_of(warehouse)
    body, _, _ = board.render(board.pages[path], "")
    assert body is not None
    assert links_of(read_html(body.html)) == [link]
    assert f"All {link[1:]}" in text_at(board, path)


def test_a_warehouse_that_appears_later_and_tables_that_lack_columns_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column that the files of an older release lack is null."""
    shown = Shown(tmp_path / "later", monkeypatch)
    text = shown.text()
    assert "no tables found" in text
    assert "balancewatch run" in text
    assert shown.board.value_json(shown.page, "")[1] == 503
    write(tmp_path / "later", {"alerts": [alert("one")]})
    assert shown.text() == "all: 1"
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


@pytest.mark.parametrize(
    ("page", "search", "sentence"),
    [
        *(("alerts", f"{name}={value}", f"{name} = '{value}'") for name, value in INVALID_FILTERS.items()),
        ("brokers", "cluster=x", "cluster = 'x': choose one of prod"),
        ("group", "", "group is missing"),
        ("group", "group=biling", "Group 'biling' is unknown; known groups include billing."),
        ("group", "group=billing&cluster=x", "Group 'billing' is unknown in cluster x; no group is known there."),
        ("group", "group=billing&topic=x", "topic = 'x': choose one of orders."),
        ("group", "group=billing&verdict=BAD", "verdict = 'BAD': choose one of UNOWNED, NOT_CONSUMED"),
        ("group", "group=billing&page=0", "page = '0': give an integer from 1"),
        ("group", "group=billing&at=noon", "at = 'noon' is not a time"),
        ("groups", "cluster=x", "cluster = 'x': choose one of prod"),
        ("history", "", "group is missing"),
        ("history", "group=bill", "known groups include billing"),
        ("history", "group=billing&since=soon", "since = 'soon' is not a duration"),
        ("history", "group=billing&topic=x", "topic = 'x': choose one of orders."),
        ("incident", "", "id is missing"),
        ("incident", "id=nope", "id = 'nope' is not in"),
    ],
)
def test_an_invalid_parameter_is_an_error_message(page: str, search: str, sentence: str, prod: Board) -> None:
    assert sentence in text_at(prod, f"/{page}", search)


SEARCH = {"/group": "group=billing", "/history": "group=billing", "/incident": "id=one"}


def test_every_page_reports_stale_data(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Stale tables without firing alerts are no good news."""
    open_since = alert("one", ago_ms=0)
    write(tmp_path, {"assignments": [assignment(0, "OK", changed_at=NOW_MS)], "alerts": [open_since]})
    soon, late = board_of(tmp_path, NOW_MS + 1_000), board_of(tmp_path, NOW_MS + 3 * 3_600_000)
    for page in PAGES:
        with subtests.test(page.path):
            new, old = (text_at(board, page.path, SEARCH.get(page.path, "")) for board in (soon, late))
            assert "Stale data" not in new
            assert "Stale data: the newest row is 3 h old." in old
            assert "No alert is firing." not in old


def test_every_page_is_a_value_in_json(warehouse: Path, subtests: pytest.Subtests) -> None:
    write(warehouse, {"assignments": [assignment(0, "UNOWNED")], "quarantine": []}, 1)
    client = client_of(warehouse)
    values: dict[str, Any] = {}
    for page in PAGES:
        with subtests.test(page.path):
            answer = client.get(f"/api/{page.name}?{SEARCH.get(page.path, '')}")
            assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
            assert answer.json().keys() == {"now_ms", "newest_ms", "left_out", "page"}
            assert answer.json()["now_ms"] == NOW_MS
            values[page.name] = answer.json()["page"]
    assert [incident["incident_id"] for incident in values["overview"]["trouble"]["firing"]] == ["one"]
    assert [incident["incident_id"] for incident in values["alerts"]["incidents"]["items"]] == ["one"]
    assert values["group"]["matrix"]["lines"][0]["queue"]["verdict"] == "UNOWNED"
    assert client.get("/api/alerts?state=LOUD").status_code == 400


def test_a_row_from_the_future_counts_as_of_now(tmp_path: Path) -> None:
    """No page says that the data are of a time to come, and none calls them old."""
    write(tmp_path, {"alerts": [alert("one", ago_ms=-3_600_000)]})
    text = text_at(board_of(tmp_path), "/")
    assert "Stale data" not in text
    assert "Last data now" in text


@pytest.mark.parametrize(
    ("setting", "path", "shown"),
    [
        ('language = "zh"', "/", 'lang="zh"'),
        ('[[labels]]\nset = { team = "payments" }', "/incident?id=one", "team=payments"),
        ('[[mutes]]\nname = "night"\nmatch = { cluster = "*" }\nfrom = "22:00"\nto = "06:00"', "/silences", "night"),
    ],
    ids=["language", "labels", "mutes"],
)
def test_changed_settings_show_within_a_minute(
    setting: str, path: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invalid settings keep the previous ones."""
    file, now = tmp_path / "settings.toml", [NOW_MS]
    monkeypatch.setenv("BALANCEWATCH_CONFIG", str(file))
    file.touch()
    settings = Settings.load(paths={"warehouse": write(tmp_path / "warehouse", {"alerts": [alert("one")]})})
    access = AccessControl(frozenset({"127.0.0.1"}))
    client = TestClient(make_app(Board(settings, lambda: now[0]), access), "http://127.0.0.1:8050")

    def shows(text: str) -> bool:
        """Whether the page has the setting a minute after the file has this text."""
        file.write_text(text)
        now[0] += MINUTE
        return shown in client.get(path).text

    assert [shows(text) for text in ("", setting, "no TOML", "")] == [False, True, True, False]
