"""The Dash application: one callback renders the URL's page, again after every change of the tables."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import structlog
from dash import ClientsideFunction, Dash, Input, Output, State, html, no_update
from dash.development.base_component import Component
from plotly.io.json import to_json_plotly

from conf.board import Board as BoardSettings
from conf.location import Location
from streaming.board.drawing import elements as el
from streaming.board.pages import PAGES
from streaming.board.pages.page import Page, View
from streaming.board.url.parameters import AskedError, read_asked
from streaming.board.web.frame import INDEX, META, frame
from streaming.board.web.health import serve_health
from streaming.board.web.notices import left_out_notice, stale_notice, with_notices
from streaming.board.web.plotly_script import serve_plotly
from streaming.board.web.runbook_pages import ROOT, serve_runbooks
from streaming.board.web.tables import Seen, Tables
from streaming.store.freshness import read_newest_ms
from streaming.store.store import WarehouseError
from streaming.text.times import MINUTE
from streaming.text.visible_text import shown_json, visible_name

KEPT_BODIES = 64
"""Rendered bodies kept for viewers of the same URL until the tables change."""

MOST_ANNOUNCED = 200

log = structlog.get_logger()


class Board:
    """The pages over one warehouse. `render` may run in several threads."""

    def __init__(
        self,
        settings: BoardSettings,
        warehouse: Location,
        clock_ms: Callable[[], int],
        pages: tuple[Page[Any], ...] = PAGES,
        runbooks_url: str = ROOT,
    ) -> None:
        self._settings, self._runbooks_url = settings, runbooks_url
        self._clock_ms = clock_ms
        self._tables = Tables(warehouse)
        self._pages: Mapping[str, Page[Any]] = {page.path: page for page in pages}
        self._bodies: OrderedDict[str, str] = OrderedDict()
        self._alerts: tuple[str, dict[str, Any] | None] = ("", None)
        self._newest: tuple[str, int | None] = ("", None)
        self._lock = threading.Lock()
        self.rendered = 0
        """Number of rendered bodies."""

    def now_ms(self) -> int:
        """Return epoch ms by the board's clock."""
        return self._clock_ms()

    def can_open(self) -> bool:
        """Return whether a table of the warehouse can be opened."""
        return self._tables.can_open()

    def render(self, path: str, search: str, shown: str | None) -> tuple[str | None, str, dict[str, Any] | None]:
        """Return the body as JSON, its key and the firing incidents; only the key if `shown` is that key."""
        now_ms = self._clock_ms()
        seen = self._tables.look()
        key = _key(path, search, seen.tag, str(now_ms // MINUTE))
        if key == shown:
            return None, key, None
        with self._lock:
            known = self._bodies.get(key)
        if known is None:
            known = shown_json(str(to_json_plotly(self._body(path, search, seen, now_ms))))  # names of all pages
            with self._lock:
                self.rendered += 1
                self._bodies[key] = known
                while len(self._bodies) > KEPT_BODIES:
                    self._bodies.popitem(last=False)
        return known, key, self._announced(seen)

    def _announced(self, seen: Seen) -> dict[str, Any] | None:
        """Return the firing incidents, read once per state of the tables."""
        with self._lock:
            tag, alerts = self._alerts
        if tag != seen.tag:
            alerts = _firing(seen)
            with self._lock:
                self._alerts = (seen.tag, alerts)
        return alerts

    def _body(self, path: str, search: str, seen: Seen, now_ms: int) -> Component:
        page = self._pages.get(path.rstrip("/") or "/")
        if page is None:
            return _unknown_page(path, self._pages.values())
        try:
            asked = read_asked(search, page.parameters)
            try:
                return self._ask(page, asked, seen, now_ms)
            except WarehouseError:  # files may have been vacuumed since the refresh
                return self._ask(page, asked, self._tables.look(at_once=True), now_ms)
        except AskedError as error:
            return _refused(page, str(error))
        except WarehouseError as error:
            log.warning("page query failed", page=page.name, error=str(error))
            return _failed(
                page, "The tables cannot be read; the log of `balancewatch board` says why. This page retries."
            )
        except Exception:
            log.exception("page failed", page=page.name)
            return _failed(page, "This page failed; the log of `balancewatch board` says why. Other pages still work.")

    def _ask(self, page: Page[Any], asked: Mapping[str, str], seen: Seen, now_ms: int) -> Component:
        if seen.history is None:
            return _no_tables(seen.trouble)
        newest_ms = self._newest_of(seen)
        view = View(
            seen.history,
            asked,
            now_ms,
            round(self._settings.stale_seconds * 1000),
            None if newest_ms is None else min(newest_ms, now_ms),
            self._runbooks_url,
        )
        unreadable = left_out_notice(seen.history.left_out, page.tables)
        return with_notices(page.body(view), stale_notice(view), unreadable)

    def _newest_of(self, seen: Seen) -> int | None:
        """Return the newest row's time, read once per state of the tables."""
        with self._lock:
            tag, newest_ms = self._newest
        if tag != seen.tag and seen.history is not None:
            newest_ms = read_newest_ms(seen.history)
            with self._lock:
                self._newest = (seen.tag, newest_ms)
        return newest_ms


def make_app(board: Board, settings: BoardSettings, pages: tuple[Page[Any], ...] = PAGES) -> Dash:
    """Return the Dash application of a board. It loads nothing from other hosts."""
    app = Dash(
        __name__,
        title="balancewatch",
        update_title="",
        assets_folder=str(Path(__file__).with_name("assets")),
        assets_ignore=r"theme\.js|runbook\.css",
        meta_tags=META,
        index_string=INDEX,
        serve_locally=True,
        suppress_callback_exceptions=True,
        add_log_handler=False,
        compress=False,
    )
    serve_plotly(app)
    serve_runbooks(app, pages)
    serve_health(app, board.can_open)
    app.layout = frame(pages, settings.refresh_seconds, version("balancewatch"))

    @app.callback(
        Output("body-data", "data"),
        Output("shown", "data"),
        Output("alerts", "data"),
        Output("beat", "data"),
        Input("url", "pathname"),
        Input("url", "search"),
        Input("tick", "n_intervals"),
        State("shown", "data"),
    )
    def show(path: str | None, search: str | None, ticks: int | None, shown: str | None) -> tuple[Any, ...]:
        body, key, alerts = board.render(path or "/", search or "", shown)
        beat = {"every_ms": round(settings.refresh_seconds * 1000), "ticks": ticks, "now_ms": board.now_ms()}
        if body is None:
            return no_update, no_update, no_update, beat
        return {"key": key, "tree": body}, key, alerts, beat

    app.clientside_callback(  # type: ignore[no-untyped-call]  # Dash types only its decorators
        ClientsideFunction("board", "arrived"),
        Output("applied", "data"),
        Input("body-data", "data"),
        Input("alerts", "data"),
        Input("beat", "data"),
    )
    return app


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _firing(seen: Seen) -> dict[str, Any] | None:
    """Return the count of firing incidents that are not inhibited and the newest of them, id to a few words, which
    screen readers announce. `left_out` counts unreadable rows by table."""
    if seen.history is None:
        return None
    sql = (
        "SELECT incident_id, kind, coalesce(consumer_group, broker_name, cluster) AS subject, "
        "count(*) OVER () AS firing FROM firing ORDER BY fired_at DESC, incident_id LIMIT ?"
    )
    try:
        rows = seen.history.rows(sql, [MOST_ANNOUNCED])
    except WarehouseError:
        return None
    newest = {row["incident_id"]: visible_name(f"{row['kind']}, {row['subject']}") for row in rows}
    alerts: dict[str, Any] = {"count": rows[0]["firing"] if rows else 0, "newest": newest}
    return alerts | ({"left_out": dict(seen.history.left_out)} if seen.history.left_out else {})


def _unknown_page(path: str, pages: Any) -> Component:
    links = [html.Li(el.link(page.title, page.path)) for page in pages if page.nav]
    return html.Div(
        [el.heading("Page not found"), el.notice("hint", f"{path[:200]} is not a page of the board.", html.Ul(links))]
    )


def _refused(page: Page[Any], sentence: str) -> Component:
    text, path = page.back or (f"{page.title} without filters", page.path)
    back = html.P(el.link(text, path))
    return html.Div([el.heading(page.title), el.notice("error", sentence, back)])


def _failed(page: Page[Any], sentence: str) -> Component:
    return html.Div([el.heading(page.title), el.notice("error", sentence)])


def _no_tables(trouble: str) -> Component:
    return html.Div(
        [
            el.heading("No tables yet"),
            el.notice(
                "hint",
                trouble,
                html.P(
                    [
                        "Start ",
                        el.code("balancewatch run"),
                        ", which creates them, or choose another folder: ",
                        el.code("balancewatch board --warehouse FOLDER"),
                        ". This page retries.",
                    ]
                ),
            ),
        ]
    )
