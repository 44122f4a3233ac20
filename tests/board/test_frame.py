"""The frame in a real Chromium: what every page has, live updates, keyboard, theme, what hostile rows cannot do."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from streaming.board.web.access import AccessControl
from streaming.warehouse.writer import append_rows
from tests.board.conftest import DESK, PHONE, Tab, is_update, serve
from tests.board.modelled import played
from tests.board.pictures import pages
from tests.board.tables import NOW_MS
from tests.support.row_writer import RowWriter
from tests.support.words import CAMEL_CASE, PRODUCT_NAMES

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("chromium")]


@pytest.fixture
def growing(modelled_warehouse: Path, tmp_path: Path) -> Iterator[tuple[str, Callable[..., None]]]:
    """A board of its own over the modelled incidents, and a way to add a row to its alerts."""
    writer = RowWriter(shutil.copytree(modelled_warehouse, tmp_path / "warehouse"))
    batches = iter(range(1, 1_000))

    def add(**columns: Any) -> None:
        row = {**played()["alerts"][0], "state": "FIRING", "inhibited_by": None, "fired_at": NOW_MS}
        append_rows(writer, {"alerts": [{**row, "changed_at": NOW_MS, **columns}]}, "more", next(batches))

    with serve(tmp_path / "warehouse") as url:
        yield url, add


@pytest.mark.parametrize("name", pages())
def test_each_page_is_quiet_and_without_serious_faults_for_who_cannot_see_it(
    name: str, board_url: str, tab: Tab
) -> None:
    """Console, axe in light, its rules of colors in dark, one h1, landmarks; the same address gives the same page
    again. On a phone nothing scrolls sideways but tables in their boxes."""
    page = tab.open(board_url.rstrip("/") + pages()[name])
    assert tab.faults() == []
    before = tab.words()
    page.emulate_media(color_scheme="dark")
    tab.reload()
    assert tab.faults("color-contrast", "link-in-text-block") == []
    assert tab.words() == before
    assert page.locator("h1").count() == page.locator("main").count() == page.locator("header").count() == 1
    assert page.title().endswith(" · balancewatch")
    headings = " ".join(page.locator("h1, h2, h3, dt, label, summary, caption, th[scope=col]").all_text_contents())
    assert set(CAMEL_CASE.findall(headings)) <= PRODUCT_NAMES, "headings are words, not names of classes"
    with tab.on_phone():
        assert page.evaluate("[screen.width, navigator.maxTouchPoints]") == [PHONE["width"], 1]
        assert tab.is_narrow_enough()
        assert page.evaluate("[...document.querySelectorAll('.scroll')].every(box => box.clientWidth <= innerWidth)")
    assert page.evaluate("[innerWidth, navigator.maxTouchPoints]") == [DESK["width"], 0]


MARK = "() => document.querySelectorAll('#page *').forEach((one) => { one.marked = true; })"
RANGE = "() => ['x', 'width'].map(one => document.querySelector('#timeline-lanes .zoom').getAttribute(one)).join()"
IS_AT = "(top) => Math.abs(document.activeElement.getBoundingClientRect().top - top) <= 1"
UNMARKED = "() => [...document.querySelectorAll('#page *')].filter((one) => !one.marked).length"


def test_a_new_row_appears_without_a_reload_and_touches_only_what_is_new(
    growing: tuple[str, Callable[..., None]], tab: Tab
) -> None:
    """Every node that was there is the same node, focus and scroll included; a screen reader hears of it."""
    url, add = growing
    page = tab.open(url)
    whole = page.locator("#page *").count()
    page.evaluate(MARK)
    page.locator(".card a").last.focus()
    page.evaluate("window.scrollTo(0, 300)")
    seen_at = page.evaluate("document.activeElement.getBoundingClientRect().top")
    add(incident_id="new-1", alert_id="new", summary="<img src=x onerror=alert(1)> is new.")
    expect(page.locator("#card-new-1")).to_contain_text("<img src=x onerror=alert(1)> is new.")
    fresh = page.evaluate(UNMARKED)
    assert 0 < fresh < whole / 4, "only the new card is new"
    assert page.locator("#card-new-1 *").count() + 1 == fresh
    assert page.evaluate("document.activeElement.marked && document.activeElement.tagName") == "A"
    page.wait_for_function(IS_AT, arg=seen_at)  # the browser moves the page with the next frame that it draws
    expect(page.locator("#announce")).to_have_text("Firing now: duplicate_client_id, order-service")
    firing = re.search(r"(\d+) firing", page.locator(".counts").inner_text())
    assert firing is not None
    expect(page).to_have_title(re.compile(rf"^\({firing[1]}\) Overview"))


def test_when_nothing_is_new_nothing_moves(board_url: str, tab: Tab) -> None:
    """Three looks at unchanged tables change no node of the page but ages, which count on between late answers."""
    page = tab.open(board_url)
    page.evaluate(
        """() => { window.moves = [];
        const isAge = (node) => Boolean((node.closest ? node : node.parentElement)?.closest('time.age'));
        new MutationObserver((all) => { window.moves.push(...all.filter((one) => !isAge(one.target)).map(
            (one) => `${one.type} of ${one.target.nodeName} ${one.target.textContent.slice(0, 80)}`)); }).observe(
        document.getElementById('page'), {subtree: true, childList: true, characterData: true, attributes: true}); }"""
    )
    for _ in range(3):
        with page.expect_response(is_update):
            pass
    assert page.evaluate("window.moves") == []


def test_what_is_being_typed_and_a_figures_zoom_outlive_an_update(
    growing: tuple[str, Callable[..., None]], tab: Tab
) -> None:
    url, add = growing
    page = tab.open(url + "alerts")
    box = page.locator("#timeline-lanes").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 20, steps=5)
    page.mouse.up()
    zoomed = page.evaluate(RANGE)
    page.locator("#filters-group").fill("half typed")
    add(incident_id="new-2", alert_id="new")
    expect(page.locator("#incidents-table-new-2")).to_be_visible()
    assert page.input_value("#filters-group") == "half typed"
    assert page.evaluate(RANGE) == zoomed
    page.locator("#timeline-lanes").dblclick()
    assert zoomed != page.evaluate(RANGE) == "0,100%"


def tab_to(page: Page, selector: str, most: int = 60) -> None:
    """Press Tab until it has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
            return
    pytest.fail(f"no way to {selector} by {most} times Tab")


def test_everything_is_done_by_keyboard_and_the_back_button_undoes_it(board_url: str, tab: Tab) -> None:
    page = tab.open(board_url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "page"
    tab_to(page, ".card a[href^='/incident']")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("broker_isolated")
    assert page.evaluate("document.activeElement.id") == "title", "the focus follows to the new page"
    page.go_back()
    expect(page.locator("h1")).to_have_text("Overview")
    page.goto(board_url + "alerts")
    tab.settled()
    tab_to(page, "#filters-state")
    page.keyboard.type("RES")
    expect(page).to_have_url(re.compile("state=RESOLVED"))
    expect(page.locator("h1 + span")).to_have_text("3 incidents")
    assert page.evaluate("document.activeElement.id") == "filters-state"
    tab_to(page, "#filters-group")
    page.keyboard.type("order-service")
    page.keyboard.press("Enter")
    expect(page.locator("h1 + span")).to_have_text("1 incident")
    assert "group=order-service" in page.url
    page.go_back()
    expect(page.locator("h1 + span")).to_have_text("3 incidents")
    assert page.input_value("#filters-group") == ""


def test_the_theme_that_is_chosen_stays_and_figures_follow_it(board_url: str, tab: Tab) -> None:
    page = tab.open(board_url + "alerts")

    def colours() -> tuple[str, str]:
        ground = "getComputedStyle(document.documentElement).backgroundColor"
        tick = "getComputedStyle(document.querySelector('.plot .tick text')).fill"
        return page.evaluate(ground), page.evaluate(tick)

    light = colours()
    page.locator("#theme").click()
    expect(page.locator("#theme-word")).to_have_text("Light")
    assert colours() == light
    page.locator("#theme").click()
    dark = colours()
    assert dark[0] != light[0]
    assert dark[1] != light[1]
    tab.reload()
    assert colours() == dark


def test_a_board_that_does_not_answer_any_more_is_reported(board_url: str, loud_tab: Tab) -> None:
    """The browser's clock goes on by half a minute in which no question is answered."""
    page = loud_tab.open(board_url)
    expect(page.locator("#connection")).to_be_hidden()
    page.route("**/*", lambda route: route.abort() if is_update(route.request) else route.continue_())
    page.evaluate("() => { const now = Date.now; Date.now = () => now() + 30_000; }")
    expect(page.locator("#connection")).to_contain_text("The board has not answered for 3")
    page.unroute("**/*")
    expect(page.locator("#connection")).to_be_hidden()


TOKEN = "correct-horse-battery-staple"  # noqa: S105  # of these tests
GUARDED = "alerts?kind=starved_queue"


@pytest.fixture(scope="module")
def guarded(modelled_warehouse: Path) -> Iterator[str]:
    """A board behind TOKEN."""
    with serve(modelled_warehouse, access=AccessControl(frozenset(), TOKEN, 3600)) as url:
        yield url


def log_in(tab: Tab, token: str = TOKEN) -> None:
    tab.page.get_by_label("Token of this board").fill(token)
    tab.page.get_by_role("button").click()


def test_the_form_or_a_link_with_the_token_lets_in_and_links_elsewhere_keep_the_session(
    guarded: str, loud_tab: Tab
) -> None:
    """A data: page is of another site than the board, as a chat is. The token leaves the address."""
    tab, page = loud_tab, loud_tab.page
    chat = f"data:text/html,<a href='{guarded}{GUARDED}'>alert</a>"
    page.goto(chat)
    page.get_by_role("link").click()
    log_in(tab, "wrong")
    expect(page.get_by_role("alert")).to_have_text("Wrong token.")
    log_in(tab)
    tab.settled()
    assert page.url == guarded + GUARDED
    page.goto(chat)
    page.get_by_role("link").click()
    tab.settled()
    assert page.url == guarded + GUARDED
    page.context.clear_cookies()
    page.goto(f"{guarded}{GUARDED}&token={TOKEN}")
    tab.settled()
    assert page.url == guarded + GUARDED
    assert page.evaluate("document.cookie") == ""


def test_a_session_that_has_ended_is_reported_from_a_board_that_is_gone(guarded: str, loud_tab: Tab) -> None:
    tab, page = loud_tab, loud_tab.page
    page.goto(f"{guarded}{GUARDED}&token={TOKEN}")
    tab.settled()
    said = page.locator("#connection")
    expect(said).to_be_hidden()
    kept = page.context.cookies()
    page.context.clear_cookies()
    expect(said).to_contain_text("Your session has ended")
    page.context.add_cookies(kept)  # type: ignore[arg-type]  # what it gives is what it takes
    expect(said).to_be_hidden()
    page.context.clear_cookies()
    said.get_by_role("link", name="Log in again").click()
    log_in(tab)
    tab.settled()
    assert page.url == guarded + GUARDED


def test_the_local_time_stands_beside_utc_and_moves_nothing(board_url: str, tab: Tab) -> None:
    """Shanghai is 8 h ahead; without a script, and in a zone like UTC, there is UTC alone."""
    page = tab.open(board_url + "alerts")
    time = page.locator("#incidents-table time.moment").first
    assert page.locator("[data-local]").count() == 0
    expect(page.locator("#zone")).to_be_hidden()
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Shanghai"})
    try:
        page.add_init_script(
            "addEventListener('DOMContentLoaded', () => "
            "{ window.unmarked = document.querySelectorAll('time.moment:not([data-local])').length })"
        )
        page = tab.reload()
        assert page.evaluate("window.unmarked") == 0, "marked as it is parsed, before it is painted"
        assert (time.inner_text(), time.get_attribute("data-local")) == ("10:57:06", "18:57")
        assert page.evaluate("getComputedStyle(document.querySelector('[data-local]'), '::after').content") != "none"
        assert page.locator("time.moment:not([data-local])").count() == 0
        expect(page.locator("#zone")).to_be_visible()
        assert tab.faults("color-contrast") == []
    finally:
        session.send("Emulation.setTimezoneOverride", {"timezoneId": ""})
        session.detach()


def test_a_heading_sorts_by_keyboard_and_keeps_the_focus(board_url: str, tab: Tab) -> None:
    page = tab.open(board_url + "groups")
    tab_to(page, "th .sorter[href*='sort=-queues']")
    page.keyboard.press("Enter")
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("Queues")
    assert page.evaluate("document.activeElement.closest('th').getAttribute('aria-sort')") == "descending"
    page.keyboard.press("Enter")
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("Queues")
    assert page.url.endswith("?sort=queues")


@pytest.mark.parametrize("has_scripts", [True, False])
def test_an_incident_is_acknowledged_by_keyboard_with_and_without_scripts(
    has_scripts: bool, modelled_warehouse: Path, tmp_path: Path, loud_tab: Tab
) -> None:
    warehouse = shutil.copytree(modelled_warehouse, tmp_path / "warehouse")
    browser = loud_tab.page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=has_scripts, viewport=PHONE)
    with serve(warehouse, access=AccessControl(frozenset(), TOKEN, 3600), write=True) as url:
        page = context.new_page()
        page.goto(f"{url}incident?{pages()['incident'].partition('?')[2]}&token={TOKEN}")
        page.locator("#response-author").fill("ada")
        page.locator("#response-note").fill("restarting the twin")
        page.keyboard.press("Enter")
        expect(page.locator("#respond li").first).to_contain_text("acknowledged by ada")
        assert page.locator("#response-author").input_value() == "ada"
        if has_scripts:
            tab = Tab(page)
            assert tab.faults() == []
            assert tab.is_narrow_enough()
    context.close()


def test_the_ages_of_the_tables_never_run_over_each_other(board_url: str, tab: Tab) -> None:
    """The longest that they may say, at every width of a column."""
    longest = "23 h 59 min ago</time><span>, delay 23 h 59 min</span>"
    page = tab.open(board_url)
    page.locator("#tables-details summary").click()
    for width in (1400, 1000, 700, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(
            "text => document.querySelectorAll('.ages dd').forEach(one => { one.innerHTML = text; })",
            f"<time>{longest}",
        )
        over = page.evaluate(
            "() => [...document.querySelectorAll('.ages > div')]"
            ".filter(one => one.scrollWidth > one.clientWidth).map(one => one.id)"
        )
        assert over == [], width
