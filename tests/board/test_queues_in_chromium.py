"""Groups, their matrix, their history and the brokers in a real browser, over the modelled incidents."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.board.conftest import PHONE, Tab, serve
from tests.board.tables import NOW_MS, alert, assignment, write

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("chromium")]

TWINS = "group?cluster=twins&group=order-service"
HISTORY = "history?cluster=twins&group=order-service&topic=orders&since=1h"


def cells(page: Page, queue: str) -> list[str]:
    """The verdict of a queue's row, and what its cells say to who cannot see them."""
    row = page.locator("#queues tbody tr").filter(has=page.get_by_role("link", name=queue, exact=True))
    labels = row.locator("td[aria-label]").evaluate_all("cells => cells.map(cell => cell.getAttribute('aria-label'))")
    return [row.locator("td .mark").first.inner_text(), *labels]


def asked(page: Page) -> str | None:
    """The moment in the URL."""
    at: str | None = page.evaluate("new URLSearchParams(location.search).get('at')")
    return at


def test_the_twins_page_names_their_starved_queues_and_both_addresses(tab: Tab, board_url: str) -> None:
    page = tab.open(board_url + TWINS)
    expect(page.locator("h1")).to_have_text("order-service")
    starved = page.locator("#queues .verdict-unowned")
    assert {text.strip().split("\n")[-1] for text in starved.all_inner_texts()} == {"✖UNOWNED"}
    assert cells(page, "broker-a:6")[1:] == []
    heads = page.locator("#queues thead .client").all_inner_texts()
    twins = [head for head in heads if "TWIN" in head]
    assert len(twins) == 2
    hosts = {line.removeprefix("at ") for head in twins for line in head.split("\n") if line.startswith("at ")}
    assert len(hosts) == 2
    members = page.locator("#members").inner_text()
    incident = page.locator("#incidents-panel .card").first.inner_text()
    assert all(host in members and host in incident for host in hosts)


def test_the_slider_moves_the_matrix_and_the_url_by_keyboard_and_keeps_the_focus(tab: Tab, board_url: str) -> None:
    page = tab.open(board_url + HISTORY)
    now = cells(page, "broker-a:6")
    slider = page.get_by_role("slider")
    slider.focus()
    moments = [int(one) for one in page.locator("#history-moment").get_attribute("data-moments").split(",")]  # type: ignore[union-attr]  # the slider of this page has moments
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(f"() => location.search.includes('at={moments[-1]}')")
    while len(moments) > 1:
        moments.pop()
        page.keyboard.press("ArrowLeft")
        page.wait_for_function(f"() => location.search.includes('at={moments[-1]}')")
    expect(page.locator("#matrix-panel h2")).to_contain_text(" at ")
    page.wait_for_function("verdict => !document.querySelector('#queues').innerText.includes(verdict)", arg="UNOWNED")
    assert cells(page, "broker-a:6") != now
    expect(slider).to_be_focused()
    assert slider.get_attribute("aria-valuetext") == page.locator("#history-output").inner_text()
    page.keyboard.press("End")
    page.wait_for_function("() => !location.search.includes('at=')")
    expect(page.locator("#history-output")).to_have_text("now")


def test_a_late_answer_does_not_take_the_slider_out_of_the_hand(tab: Tab, board_url: str) -> None:
    """The answer for one moment comes while a person has moved on to another, and has not let go."""
    page = tab.open(board_url + HISTORY)
    slider = page.get_by_role("slider")
    moments = page.locator("#history-moment").get_attribute("data-moments").split(",")  # type: ignore[union-attr]  # the slider of this page has moments
    late: list[Route] = []
    is_held = True
    page.route("**/history?*", lambda route: late.append(route) if is_held else route.continue_())
    slider.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("at => location.search.includes('at=' + at)", arg=moments[-1])
    move = "(one, to) => { one.value = to; one.dispatchEvent(new Event('input', { bubbles: true })); }"
    slider.evaluate(move, moments[-2])
    is_held = False
    for route in late:
        route.continue_()
    page.wait_for_function("at => document.querySelector('[type=range]').getAttribute('value') === at", arg=moments[-1])
    assert slider.input_value() == moments[-2]
    slider.dispatch_event("change")
    page.wait_for_function("at => location.search.includes('at=' + at)", arg=moments[-2])
    expect(page.locator("#matrix-panel h2")).to_contain_text(" at ")
    assert slider.input_value() == moments[-2]


def test_a_moment_in_the_url_survives_a_reload_and_the_way_back(tab: Tab, board_url: str) -> None:
    page = tab.open(board_url + HISTORY)
    page.get_by_role("link", name="← Previous change").click()
    page.wait_for_function("() => location.search.includes('at=')")
    at = asked(page)
    expect(page.locator("#matrix-panel h2")).to_contain_text(" at ")
    before = page.locator("#queues").inner_text()
    page.reload()
    tab.settled()
    assert (asked(page), page.locator("#queues").inner_text()) == (at, before)
    assert page.get_by_role("slider").input_value() == at
    page.go_back()
    expect(page.locator("#matrix-panel h2")).to_contain_text("now")
    assert asked(page) is None


def test_the_history_shows_a_band_a_queue_with_its_word_and_a_click_goes_to_its_moment(
    tab: Tab, board_url: str
) -> None:
    page = tab.open(board_url + HISTORY)
    bar = page.locator("#bands .bar").filter(has=page.locator("text", has_text="UNOWNED")).first
    expect(bar.locator("title")).to_contain_text("planned owner: none")
    bar.click()
    page.wait_for_function("() => location.search.includes('at=')")


def test_a_new_verdict_appears_without_a_reload_and_leaves_other_rows_their_nodes(tmp_path: Path, tab: Tab) -> None:
    write(tmp_path, {"assignments": [assignment(0, "OK"), assignment(1, "OK")]})
    with serve(tmp_path) as url:
        page = tab.open(url + "group?group=billing")
        page.evaluate("document.querySelectorAll('#queues tbody tr').forEach(row => { row.isOld = true; })")
        page.locator("#queues tbody tr a").first.focus()
        starved = assignment(1, "UNOWNED", planned_owner=None, observed_owners=[], changed_at=NOW_MS - 1_000)
        write(tmp_path, {"assignments": [starved]}, 1)
        expect(page.locator("#queues .verdict-unowned")).to_have_count(1)
        assert page.evaluate("[...document.querySelectorAll('#queues tbody tr')].every(row => row.isOld)")
        assert page.evaluate("document.activeElement.textContent") == "broker-a:0"


LONG = "payments-" + "settlement" * 13


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A board of a group, a cluster and a broker with long names."""
    names: dict[str, Any] = {"consumer_group": LONG, "cluster": "c" * 60, "broker_name": "broker-" + "b" * 60}
    alerts = [alert("a", **names), alert("b", **{**names, "consumer_group": None, "topic": None})]
    rows = {"assignments": [assignment(0, "UNOWNED", **names)], "alerts": alerts}
    with serve(write(tmp_path_factory.mktemp("long"), rows)) as url:
        yield url


@pytest.mark.parametrize(
    "path", ["groups", "brokers", "alerts", "", "incident?id=a", f"group?group={LONG}", f"history?group={LONG}"]
)
def test_long_names_push_no_column_off_the_page(tab: Tab, long_names: str, path: str) -> None:
    """At a desk, no table scrolls; on a phone, tables may scroll in their boxes."""
    page = tab.open(long_names + path)
    assert tab.is_narrow_enough()
    too_wide = "boxes => boxes.filter(box => box.scrollWidth > box.clientWidth).map(box => box.firstChild.id)"
    assert page.locator(".scroll").evaluate_all(too_wide) == []
    page.set_viewport_size(PHONE)
    assert tab.is_narrow_enough()
