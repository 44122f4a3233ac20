"""A token's session in a real browser: a link from elsewhere keeps it, and its end is shown with a link back."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from streaming.board.web.access import AccessControl
from tests.board.conftest import Tab, serve

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("chromium")]

TOKEN = "correct-horse-battery-staple"  # noqa: S105  # of these tests
PAGE = "alerts?kind=starved_queue"


def test_a_link_clicked_elsewhere_leads_to_its_page_with_and_without_a_session(
    modelled_warehouse: Path, loud_tab: Tab
) -> None:
    """A data: page is of another site than the board, as a chat is."""
    tab, page = loud_tab, loud_tab.page
    with serve(modelled_warehouse, access=AccessControl(frozenset(), TOKEN, 3600)) as url:
        chat = f"data:text/html,<a href='{url}{PAGE}'>alert</a>"
        page.goto(chat)
        page.get_by_role("link").click()
        page.get_by_label("Token of this board").fill(TOKEN)
        page.get_by_role("button").click()
        tab.settled()
        assert page.url == url + PAGE
        page.goto(chat)
        page.get_by_role("link").click()
        tab.settled()
        assert page.url == url + PAGE


def test_a_session_that_has_ended_is_reported_from_a_board_that_is_gone(
    modelled_warehouse: Path, loud_tab: Tab
) -> None:
    tab, page = loud_tab, loud_tab.page
    with serve(modelled_warehouse, access=AccessControl(frozenset(), TOKEN, 3600)) as url:
        page.goto(f"{url}{PAGE}&token={TOKEN}")
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
        page.get_by_label("Token of this board").fill(TOKEN)
        page.get_by_role("button").click()
        tab.settled()
        assert page.url == url + PAGE
