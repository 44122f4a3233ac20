"""The runbooks, served by the board as plain HTML: they are there without a network, without tables and without script.

`/runbooks/KIND#CAUSE` is what every alert carries as `runbook_url` where no other address is set; `/runbooks/metrics`
is the manual of the metrics, to which the rules of Prometheus lead.
"""

import re
from collections.abc import Iterable
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
    <a href="#page" class="skip">Skip to the page</a>
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
    """Add the routes: the list of the runbooks, each of them, and the metrics."""
    links = "".join(
        f'<a class="nav-link" href="{escape(page.path)}">{escape(page.nav)}</a>' for page in pages if page.nav
    )

    def runbook(name: str = INDEX) -> Response:
        text = text_of(name)
        if text is None:
            body = f'<h1>No such runbook</h1><p>There are <a href="{ROOT}/">these</a>.</p>'
            return Response(FRAME.format(title="No such runbook", links=links, body=body), 404, mimetype="text/html")
        title, body = rendered(name)
        return Response(FRAME.format(title=escape(title), links=links, body=body), mimetype="text/html")

    app.server.add_url_rule(f"{ROOT}/", "runbooks", runbook)
    app.server.add_url_rule(f"{ROOT}/<name>", "runbook", runbook)


def names() -> list[str]:
    """Of the pages of kinds, the list of them not among them."""
    found = (page.name for page in (files("udfs.alerts") / "runbooks").iterdir())
    return sorted(name.removesuffix(".md") for name in found if name.endswith(".md") and name != f"{INDEX}.md")


@cache
def text_of(name: str) -> str | None:
    """The page's Markdown; None where there is none of that name."""
    if name == METRICS:
        return (files("streaming.metrics") / "README.md").read_text(encoding="utf-8")
    if name != INDEX and name not in names():
        return None
    return (files("udfs.alerts") / "runbooks" / f"{name}.md").read_text(encoding="utf-8")


@cache
def rendered(name: str) -> tuple[str, str]:
    """Title and HTML of a page that there is. Its headings have the anchors that GitHub gives them."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(_GENERATED.sub("", text_of(name) or ""))
    title = name
    for token, inner in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and inner is not None:
            title = _plain(inner) if token.tag == "h1" else title
            token.attrSet("id", anchor(_plain(inner)))
        elif token.type in ("fence", "code_block"):
            token.attrSet("tabindex", "0")  # it scrolls, and who has no mouse must reach it
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("href", _within(str(child.attrGet("href") or "")))
    html: str = parser.renderer.render(tokens, parser.options, {})
    return title, html


def anchor(heading: str) -> str:
    """What GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _plain(token: Token) -> str:
    return "".join(child.content for child in token.children or () if child.type in ("text", "code_inline"))


def _within(href: str) -> str:
    """A link to a page beside it leads to that page as it is served; any other stays as it is."""
    if href.endswith(_METRICS_PAGE):
        return f"{ROOT}/{METRICS}"
    found = _OTHER_PAGE.fullmatch(href)
    return f"{ROOT}/{found['name']}{found['part'] or ''}" if found else href
