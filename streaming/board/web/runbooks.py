"""The runbooks as HTML; they need no network, no tables and no script.

`/runbooks/KIND#CAUSE` is the default `runbook_url` of alerts. `/runbooks/metrics` is the manual of the metrics, which
the Prometheus rules link to.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = "/runbooks"

INDEX, METRICS = "README", "metrics"

_GENERATED = re.compile(r"<!-- (?:generated|end): [\w-]+ -->\n?")
_OTHER_PAGE = re.compile(r"(?P<name>[\w-]+)\.md(?P<part>#[\w-]+)?")
_METRICS_PAGE = "streaming/metrics/README.md"


PAGES = {
    METRICS: files("streaming.metrics") / "README.md",
    **{page.name.removesuffix(".md"): page for page in (files("udfs.alerts") / "runbooks").iterdir() if page.is_file()},
}
"""The pages by name: METRICS, the runbooks and their list, INDEX."""


@cache
def rendered(name: str, language: str = "en") -> tuple[str, str] | None:
    """Return title and HTML of a page, whose headings have GitHub's anchors; None for an unknown name.

    A page that is not translated is English.
    """
    if name not in PAGES:
        return None
    translated = files("udfs.alerts") / "runbooks" / language / f"{name}.md"
    page = translated if translated.is_file() else PAGES[name]
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(_GENERATED.sub("", page.read_text(encoding="utf-8")))
    title = name
    for token, inner in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and inner is not None:
            title = _plain(inner) if token.tag == "h1" else title
            token.attrSet("id", anchor(_plain(inner)))
        elif token.type in ("fence", "code_block"):
            token.attrSet("tabindex", "0")  # it scrolls, so the keyboard must reach it
        token.children = None if token.children is None else list(_linked(token.children))
    html: str = parser.renderer.render(tokens, parser.options, {})
    return title, html


def anchor(heading: str) -> str:
    """Return GitHub's anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _plain(token: Token) -> str:
    return "".join(child.content for child in token.children or () if child.type in ("text", "code_inline"))


def _linked(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens with links to their addresses here; links to other files of the repository become text."""
    is_served = True
    for token in tokens:
        if token.type == "link_open":
            href = _within(str(token.attrGet("href") or ""))
            is_served = href is not None
            token.attrSet("href", href or "")
        if is_served or token.type not in ("link_open", "link_close"):
            yield token


def _within(href: str) -> str | None:
    """Return the address of a served page, any other URL unchanged, None for a file that the board does not serve."""
    if href.endswith(_METRICS_PAGE):
        return f"{ROOT}/{METRICS}"
    if found := _OTHER_PAGE.fullmatch(href):
        return f"{ROOT}/{found['name']}{found['part'] or ''}"
    return None if href.startswith("../") else href
