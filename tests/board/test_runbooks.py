"""The runbooks as the board serves them: every link that an alert carries leads to its page, and to its cause there."""

from functools import cache
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
from playwright.sync_api import expect
from starlette.testclient import TestClient

from conf.settings import Settings
from streaming.board.pages.incident import PAGE
from streaming.board.web import runbooks
from streaming.board.web.access import AccessControl
from streaming.board.web.runbooks import INDEX, METRICS, PAGES, ROOT
from streaming.metrics.names import METRICS as ALL_METRICS
from tests.board.components import Element, links_of, read_html, walk
from tests.board.conftest import PHONE, Tab
from tests.board.tables import alert, client_of, shown, write
from tests.conf.test_prometheus import ALERTS
from tests.support.offenders import assert_none
from udfs.alerts.runbook import CAUSES, runbook_url

TOKEN = "a-token-of-some-length"  # noqa: S105  # of these tests
HOST = "http://127.0.0.1:8050"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """A board without any tables."""
    return client_of(tmp_path_factory.mktemp("none"))


@cache
def page_at(client: TestClient, path: str) -> tuple[Element | None, set[str]]:
    """The page and the ids in it; None without it."""
    answer = client.get(path)
    page = read_html(answer.text) if answer.status_code == 200 else None
    return page, {element.get("id") for element in walk(page)} if page else set()


def read(client: TestClient, url: str) -> Element | None:
    """The page at an address; None if it, or the part that the address names, is missing."""
    place = urlsplit(url)
    page, ids = page_at(client, place.path)
    return page if not place.fragment or place.fragment in ids else None


def test_every_link_of_kinds_causes_pages_and_prometheus_rules_leads_to_a_page(client: TestClient) -> None:
    """The addresses that alerts carry where nothing is set."""
    root = Settings.load().runbooks_url
    assert root == f"{HOST}{ROOT}"
    addresses = [runbook_url(root, kind, cause) for kind, causes in CAUSES.items() for cause in (None, *causes)]
    assert len(addresses) > 60
    assert_none(str(address) for address in addresses if address is None or read(client, address) is None)
    assert PAGES.keys() - {INDEX, METRICS} == CAUSES.keys()
    broken = []
    for name in ("", *PAGES):
        page = read(client, f"{ROOT}/{name}")
        assert page is not None, name
        here = [urljoin(f"{HOST}{ROOT}/{name}", link) for link in links_of(page) if not link.startswith("#page")]
        broken += [f"{name}: {link}" for link in here if link.startswith(HOST) and read(client, link) is None]
    assert_none(broken)
    urls = [rule["annotations"]["runbook_url"].replace("{{ $labels.kind }}", "starved_queue") for rule in ALERTS]
    assert_none(url for url in urls if read(client, url) is None)
    assert_none(metric.name for metric in ALL_METRICS if metric.name not in page_at(client, f"{ROOT}/{METRICS}")[1])


def test_a_page_that_is_not_there_says_so_and_names_those_that_are(client: TestClient) -> None:
    for name in ("nope", "README.md", "%00", "..%5cREADME"):
        answer = client.get(f"{ROOT}/{name}")
        assert answer.status_code == 404
    assert "KIND_FACTS" not in client.get(f"{ROOT}/..%2f..%2fkinds.py").text
    assert f'href="{ROOT}/"' in client.get(f"{ROOT}/nope").text


def test_a_page_is_in_the_language_of_the_board_if_it_is_translated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = tmp_path / "runbooks" / "zh"
    pages.mkdir(parents=True)
    (pages / "slave_read.md").write_text("# slave_read\n\n从节点响应拉取。\n")
    monkeypatch.setattr(runbooks, "files", lambda _: tmp_path)
    rendered = runbooks.rendered.__wrapped__
    assert rendered("slave_read", "zh") == (
        "slave_read",
        '<h1 id="slave_read">slave_read</h1>\n<p>从节点响应拉取。</p>\n',
    )
    assert rendered("slave_read") == runbooks.rendered("slave_read")
    assert rendered("split_view", "zh") == rendered("split_view")


def test_behind_a_token_runbooks_need_it_too(tmp_path: Path) -> None:
    client = client_of(tmp_path, AccessControl(frozenset(), TOKEN, 3600.0))
    assert client.get(f"{ROOT}/starved_queue").status_code == 401
    answer = client.get(f"{ROOT}/starved_queue", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_an_incidents_page_leads_to_its_kinds_at_its_cause(tmp_path: Path) -> None:
    from_table = alert("a-1", kind="starved_queue", cause="frozen_client")
    warehouse = write(tmp_path / "w", {"alerts": [from_table, alert("b-1", kind="of_a_later_release")]})
    assert f"{ROOT}/starved_queue#frozen_client" in links_of(shown(PAGE, warehouse, id="a-1"))
    assert not [link for link in links_of(shown(PAGE, warehouse, id="b-1")) if ROOT in link]


def test_it_reads_well_by_day_by_night_and_on_a_phone(board_url: str, tab: Tab) -> None:
    page = tab.page
    page.goto(f"{board_url}runbooks/starved_queue#frozen_client")
    expect(page.locator("h1")).to_have_text("starved_queue")
    assert page.locator("#frozen_client").is_visible()
    assert tab.faults() == []
    page.emulate_media(color_scheme="dark")
    assert tab.faults("color-contrast", "link-in-text-block") == []
    assert page.title() == "starved_queue · balancewatch"
    page.set_viewport_size(PHONE)
    assert tab.is_narrow_enough()
