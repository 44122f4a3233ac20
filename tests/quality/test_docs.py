"""The pages of `quality docs`: every suite, its results, and nothing from other servers."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

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
    """Import Great Expectations only in the process that runs these tests: it takes seconds."""
    write: WriteDocs = import_module("streaming.quality.docs").write_docs
    return write


@pytest.fixture(scope="module")
def pages(write_docs: WriteDocs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All expectations hold but the pulls' queue; the clock was never validated."""
    rows = [row(name, one) for name, suite in SUITES.items() if name != CLOCKS for one in suite.expectations]
    for one in rows:
        if (one["suite"], one["expectation"]) == (PULLS, "queue in set"):
            one |= {"success": False, "unexpected": 57, "unexpected_share": 57 / 1_234, "observed": [EVIL]}
    return write_docs(tmp_path_factory.mktemp("docs"), rows).parent


def links_of(page: Path) -> set[str]:
    return set(re.findall(r'href="([^"#]+)"', page.read_text()))


def page_of(pages: Path, suite: str) -> Path:
    return pages / "expectations" / f"{suite.replace('.', '/')}.html"


def result_of(pages: Path, suite: str) -> Path:
    (page,) = (pages / "validations" / suite.replace(".", "/") / SUITES[suite].topic).rglob("*.html")
    return page


def test_the_first_page_links_every_suite_and_lists_failures(pages: Path) -> None:
    text = (pages / "index.html").read_text()
    expected = {page_of(pages, name) for name in SUITES} | {result_of(pages, name) for name in SUITES if name != CLOCKS}
    assert {pages / link for link in links_of(pages / "index.html")} == expected
    assert "(57 of 1,234)" in text
    assert "not validated yet" in text


def test_every_link_leads_to_a_page(pages: Path) -> None:
    for page in pages.rglob("*.html"):
        assert [link for link in links_of(page) if not (page.parent / link).is_file()] == []


def test_a_suites_page_has_its_expectations_and_reasons(pages: Path) -> None:
    text = page_of(pages, PULLS).read_text()
    for expectation in SUITES[PULLS].expectations:
        assert expectation.column in text
    assert "Duplicates change no verdict" in text


def test_a_result_has_counts_and_escaped_values(pages: Path) -> None:
    text = result_of(pages, PULLS).read_text()
    assert "57 unexpected values found" in text
    assert EVIL not in text
    assert "&lt;img src=x" in text


def test_no_page_names_another_server_or_runs_anything(pages: Path) -> None:
    for page in pages.rglob("*.html"):
        text = page.read_text()
        assert not re.findall(r"(?:href|src)=\"https?://", text), page
        assert not re.findall(r"<script|<img|<link|<iframe|\son\w+=\"(?!.*&)", text), page
        assert "default-src 'none'" in text


def test_earlier_pages_are_removed_and_other_files_are_not(write_docs: WriteDocs, tmp_path: Path) -> None:
    write_docs(tmp_path, [row(PULLS, expectation) for expectation in SUITES[PULLS].expectations])
    mine = tmp_path / "validations" / "mine.html"
    mine.write_text("<p>not of balancewatch</p>")
    write_docs(tmp_path, [])
    assert [*(tmp_path / "validations").rglob("*")] == [mine]
    assert {*(tmp_path / "expectations").rglob("*.html")} == {page_of(tmp_path, name) for name in SUITES}
