"""Rules of the board's files, beside the order that tests/test_layout.py holds."""

import re

from streaming.board.pages import PAGES
from tests.support.offenders import assert_none
from tests.test_layout import ROOT, imports_of, name_of

BOARD = ROOT / "streaming/board"
TEMPLATES = sorted((BOARD / "templates").glob("*.html"))


def test_words_charts_and_urls_ask_no_table() -> None:
    assert_none(
        f"{name_of(BOARD / file)}:{line} imports {name}"
        for file in ("url.py", "words.py", "chart.py")
        for line, name in imports_of(BOARD / file)
        if name.startswith("streaming.store.")
    )


def test_every_page_has_its_template() -> None:
    assert {f"{page.name}.html" for page in PAGES} <= {path.name for path in TEMPLATES}


def test_no_template_has_a_script_a_style_or_unescaped_text_of_its_own() -> None:
    """The policy allows none; `safe` marks HTML that templates or the runbooks' parser made."""
    wrong = re.compile(
        r"<script>|\bstyle=|\bon\w+=|<style>(?!\{\{ style \}\}</style>)|\{\{(?!\s*body\|safe)[^}]*\|\s*safe"
    )
    assert_none(
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in TEMPLATES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if wrong.search(line)
    )
