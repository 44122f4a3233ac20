"""The pages of `quality docs`: every suite, its results, and nothing from elsewhere."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from schemas.events import CLOCKS, PULLS
from schemas.suites import SUITES

pytestmark = pytest.mark.xdist_group("great_expectations")  # one process imports it

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
WriteDocs = Callable[[Path, Sequence[Mapping[str, Any]]], Path]
EVIL = '<img src=x onerror="document.title=1"><script>document.title=2</script>'


def row(suite: str, expectation: Any, **columns: Any) -> dict[str, Any]:
    result = {"success": True, "evaluated": 1_234, "unexpected": 0, "unexpected_share": 0.0, "observed": []}
    named = {"suite": suite, "expectation": expectation.name, "description": str(expectation), "validated_at": AT}
    return {**named, **result, **columns}


@pytest.fixture(scope="module")
def write_docs() -> WriteDocs:
    """Imported by who runs these tests: Great Expectations takes seconds, which collecting them need not."""
    write: WriteDocs = import_module("streaming.quality.docs").write_docs
    return write


@pytest.fixture(scope="module")
def pages(write_docs: WriteDocs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All hold but the pulls' queue; the clock was never validated."""
    rows = [row(name, one) for name, suite in SUITES.items() if name != CLOCKS for one in suite.expectations]
    for one in rows:
        if (one["suite"], one["expectation"]) == (PULLS, "queue in set"):
            one |= {"success": False, "unexpected": 57, "unexpected_share": 57 / 1_234, "observed": [EVIL]}
    return write_docs(tmp_path_factory.mktemp("docs"), rows).parent


def test_the_first_page_leads_to_every_suite_and_says_what_fails(pages: Path) -> None:
    text = (pages / "index.html").read_text()
    links = set(re.findall(r'href="([^"]*)"', text))
    assert links == {f"expectations/{name}.html" for name in SUITES} | {
        f"results/{name}.html" for name in SUITES if name != CLOCKS
    }
    assert all((pages / link).is_file() for link in links)
    assert "(57 of 1,234)" in text
    assert "not validated yet" in text


def test_a_suites_page_says_what_is_expected_and_why(pages: Path) -> None:
    text = (pages / "expectations" / f"{PULLS}.html").read_text()
    for one in SUITES[PULLS].expectations:
        assert one.column in text
    assert "the contract" in text or "contract" in text
    assert "Duplicates change no verdict" in text


def test_a_result_shows_counts_and_what_was_found(pages: Path) -> None:
    text = (pages / "results" / f"{PULLS}.html").read_text()
    assert "57 unexpected values found" in text
    assert 'href="../expectations/rocketmq.pulls.html"' in text
    assert EVIL not in text
    assert "&lt;img src=x" in text


def test_no_page_names_another_server_nor_runs_anything(pages: Path) -> None:
    for page in pages.rglob("*.html"):
        text = page.read_text()
        assert not re.findall(r"https?://", text), page
        assert not re.findall(r"<script|<img|<link|<iframe|\son\w+=\"(?!.*&)", text), page
        assert "default-src 'none'" in text


def test_pages_before_the_first_validation_are_the_expectations(write_docs: WriteDocs, tmp_path: Path) -> None:
    index = write_docs(tmp_path / "a" / "b", [])
    assert index.read_text().count("not validated yet") == len(SUITES)
    assert not (tmp_path / "a" / "b" / "results").exists()


def test_rows_of_an_old_table_are_shown_though_they_lack_columns(write_docs: WriteDocs, tmp_path: Path) -> None:
    old = [row(PULLS, one, success=False) for one in SUITES[PULLS].expectations]
    for of in old:
        of.update(dict.fromkeys(("description", "unexpected", "unexpected_share", "observed", "evaluated")))
    old[1]["evaluated"] = 1_234
    text = write_docs(tmp_path, old).read_text()
    assert f"{old[0]['expectation']} (? of ?)" in text
    assert f"{old[1]['expectation']} (? of 1,234)" in text
    assert (tmp_path / "results" / f"{PULLS}.html").is_file()


def test_pages_of_an_earlier_time_are_taken_away_and_other_peoples_are_not(
    write_docs: WriteDocs, tmp_path: Path
) -> None:
    write_docs(tmp_path, [row(PULLS, one) for one in SUITES[PULLS].expectations])
    (tmp_path / "expectations" / "gone.html").write_text((tmp_path / "expectations" / f"{PULLS}.html").read_text())
    (tmp_path / "results" / "mine.html").write_text("<p>not of balancewatch</p>")
    write_docs(tmp_path, [])
    assert [page.name for page in (tmp_path / "results").iterdir()] == ["mine.html"]
    assert {page.stem for page in (tmp_path / "expectations").iterdir()} == set(SUITES)


@pytest.mark.real
def test_a_browser_shows_them_without_asking_anybody(pages: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        asked: list[str] = []
        faults: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto((pages / "index.html").as_uri())
        page.get_by_role("link", name="fails").click()
        assert page.title() == f"Newest results of {PULLS}"
        assert page.get_by_text("57 unexpected values found").is_visible()
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        page.get_by_role("link", name=PULLS, exact=True).click()
        assert page.title() == f"Expectations of {PULLS}"
        browser.close()
    assert overflow <= 0
    assert {url.partition(":")[0] for url in asked} == {"file"}
    assert faults == []
