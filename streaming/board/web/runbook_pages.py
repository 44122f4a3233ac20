"""The runbooks as plain HTML; they need no network, no tables and no script.

`/runbooks/KIND#CAUSE` is the default `runbook_url` of alerts. `/runbooks/metrics` is the manual of the metrics, which
the Prometheus rules link to.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from dash import Dash
from flask import Response
from markdown_it import MarkdownIt
from markdown_it.token import Token

from streaming.board.pages.page import Page

ROOT = "/runbooks"

INDEX, METRICS = "README", "metrics"

FRAME = """<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <meta name="robots" content="noindex">

    <title>{title} · balancewatch</title>
    <link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
    <script src="/assets/theme.js"></script>
    <link rel="stylesheet" href="/assets/board.css">
    <link rel="stylesheet" href="/assets/runbook.css">
  </head>

  <body>
    <a href="#page" class="skip">Skip to content</a>
    <header class="bar">
      <a href="/" class="brand"><span aria-hidden="true">◐</span>balancewatch</a>
      <nav id="nav" aria-label="Pages">{links}</nav>
    </header>

    <main id="page" class="runbook" tabindex="-1">
{body}
    </main>
  </body>
</html>
"""

_GENERATED = re.compile(r"<!-- (?:generated|end): [\w-]+ -->\n?")
_OTHER_PAGE = re.compile(r"(?P<name>[\w-]+)\.md(?P<part>#[\w-]+)?")
_METRICS_PAGE = "streaming/metrics/README.md"


def serve_runbooks(app: Dash, pages: Iterable[Page[Any]]) -> None:
    """Add the routes of the list of runbooks, of each runbook, and of the metrics."""
    links = "".join(
        f'<a class="nav-link" href="{escape(page.path)}">{escape(page.nav)}</a>' for page in pages if page.nav
    )

    def runbook(name: str = INDEX) -> Response:
        text = text_of(name)
        if text is None:
            body = f'<h1>Runbook not found</h1><p>See the <a href="{ROOT}/">list of runbooks</a>.</p>'
            return Response(FRAME.format(title="Runbook not found", links=links, body=body), 404, mimetype="text/html")
        title, body = rendered(name)
        return Response(FRAME.format(title=escape(title), links=links, body=body), mimetype="text/html")

    app.server.add_url_rule(f"{ROOT}/", "runbooks", runbook)
    app.server.add_url_rule(f"{ROOT}/<name>", "runbook", runbook)


def names() -> list[str]:
    """Return the names of the runbooks, without their list."""
    found = (page.name for page in (files("udfs.alerts") / "runbooks").iterdir())
    return sorted(name.removesuffix(".md") for name in found if name.endswith(".md") and name != f"{INDEX}.md")


@cache
def text_of(name: str) -> str | None:
    """Return the page's Markdown; None for an unknown name."""
    if name == METRICS:
        return (files("streaming.metrics") / "README.md").read_text(encoding="utf-8")
    if name != INDEX and name not in names():
        return None
    return (files("udfs.alerts") / "runbooks" / f"{name}.md").read_text(encoding="utf-8")


@cache
def rendered(name: str) -> tuple[str, str]:
    """Return title and HTML of an existing page. Its headings have GitHub's anchors."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(_GENERATED.sub("", text_of(name) or ""))
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
