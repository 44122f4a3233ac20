"""The frame around every page: bar, navigation, page area, footer, and the browser's stores."""

from collections.abc import Iterable
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from streaming.board.drawing.attributes import aria
from streaming.board.pages.page import Page
from streaming.board.web import plotly_script

INDEX = """<!DOCTYPE html>
<html lang="en">
  <head>
    {%metas%}
    <title>{%title%}</title>
    <link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
    <script src="/assets/theme.js"></script>
    {%css%}
    <meta name="plotly" content="PLOTLY">
  </head>
  <body>
    <noscript>The board needs JavaScript. In a terminal: balancewatch alerts --current --state FIRING</noscript>
    {%app_entry%}
    {%config%}
    {%scripts%}
    {%renderer%}
  </body>
</html>""".replace("PLOTLY", plotly_script.PATH)

META = [
    {"name": "viewport", "content": "width=device-width, initial-scale=1"},
    {"name": "color-scheme", "content": "light dark"},
    {"name": "robots", "content": "noindex"},
]


def frame(pages: Iterable[Page[Any]], refresh_seconds: float, version: str) -> Component:
    """Return the layout. It is made once; later only #page changes."""
    links = [html.A(page.nav, href=page.path, className="nav-link") for page in pages if page.nav]
    hidden = aria(hidden="true")
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            dcc.Interval(id="tick", interval=round(refresh_seconds * 1000)),
            dcc.Store(id="body-data"),
            dcc.Store(id="shown"),
            dcc.Store(id="beat", data={"every_ms": round(refresh_seconds * 1000)}),
            dcc.Store(id="alerts"),
            dcc.Store(id="applied"),
            html.A("Skip to content", href="#page", className="skip"),
            html.Header(
                [
                    html.A([html.Span("◐", **hidden), "balancewatch"], href="/", className="brand"),
                    html.Nav(links, id="nav", **aria(label="Pages")),
                    html.Button(
                        [html.Span("◑", className="shape", **hidden), html.Span("Theme", id="theme-word")],
                        id="theme",
                        type="button",
                        title="Theme: light, dark or system",
                        disable_n_clicks=True,
                    ),
                ],
                className="bar",
            ),
            html.Div(id="connection", role="status", hidden=True, className="connection"),
            html.Div(id="announce", role="status", className="unseen", **aria(live="polite")),
            html.Main(html.Div(id="body"), id="page", tabIndex=-1),
            html.Footer(
                [
                    html.Span("Times are UTC. The board is read-only."),
                    html.Span(f"balancewatch {version}"),
                ],
                className="foot",
            ),
        ],
        className="board",
    )
