"""The web application: each page as HTML and as JSON, forms, runbooks, static files, `/healthz`; and its server."""

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import structlog
from anyio import to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from conf.settings import Settings, SettingsError
from streaming.board.page import Page, View, as_json, render
from streaming.board.pages import PAGES
from streaming.board.url import AskedError, href, read_asked
from streaming.board.web import runbooks
from streaming.board.web.access import API, ASSETS, HEALTH, TOO_LARGE, WRITES, AccessControl, Guard, read_form
from streaming.board.web.actions import ACTIONS, AUTHOR_COOKIE, AUTHOR_SECONDS, act, pack_author, unpack_author
from streaming.board.web.tables import Seen, Tables
from streaming.relay.actions import ActionError
from streaming.relay.mutes import make_mutes
from streaming.relay.tables import TABLE_ERRORS
from streaming.system.bounded_server import BoundedServer, Bounds, listen
from streaming.text.language import LANGUAGE, localize
from streaming.text.times import MINUTE, wall_ms
from streaming.warehouse.warehouse_error import WarehouseError
from udfs.alerts.phrase import phrase

KEPT_BODIES = 64
"""Rendered bodies kept for viewers of the same URL until the tables change."""

UNREADABLE = phrase("The tables cannot be read; the log of `balancewatch board` says why. This page retries.")
UNWRITABLE = phrase("The tables cannot be written; the log of `balancewatch board` says why.")
READ_ONLY = phrase("This board is read-only; board.write = true lets it acknowledge and silence.\n")
FAILED = phrase("This page failed; the log of `balancewatch board` says why. Other pages still work.")
NO_TABLES, NO_RUNBOOK = phrase("No tables yet"), phrase("Runbook not found")
UNCHANGED, BACK = phrase("Nothing was changed"), phrase("Back to the page")

log = structlog.get_logger()


@dataclass(frozen=True)
class Body:
    """The HTML inside the frame, its title, and the status of the response."""

    title: str
    html: str
    status: int = 200


class PresentSettings:
    """The settings of all sources, read again once a minute. Settings that are invalid then keep the previous ones."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._minute = settings, -1

    def at(self, now_ms: int) -> Settings:
        if now_ms // MINUTE != self._minute:
            self._minute = now_ms // MINUTE
            with suppress(SettingsError):
                self._settings = self._settings.load_again()
        return self._settings


class Board:
    """The pages over one warehouse. `render`, `value_json` and `act` may run in several threads."""

    def __init__(self, settings: Settings, clock_ms: Callable[[], int], pages: tuple[Page, ...] = PAGES) -> None:
        self.settings, self._present = settings.board, PresentSettings(settings)
        self.now_ms = clock_ms
        """Returns epoch ms by the board's clock."""
        self.tables = Tables(settings.paths.warehouse)
        self.pages: Mapping[str, Page] = {page.path: page for page in pages}
        self._body = lru_cache(KEPT_BODIES)(self._body_in)

    def language(self) -> str:
        """Return the language of the present settings."""
        return self._present.at(self.now_ms()).language

    def render(
        self, page: Page, search: str, shown: str | None = None, author: str = ""
    ) -> tuple[Body | None, str, dict[str, Any] | None]:
        """Return the page's body, its key and the firing incidents; only the key if `shown` is that key."""
        seen, minute = self.tables.look(), self.now_ms() // MINUTE
        author = author if page.takes_author and self.settings.write else ""
        language = LANGUAGE.get()
        parts = language, page.path, search, seen.tag, str(minute), author
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
        if key == shown:
            return None, key, None
        return self._body(page, search, seen, minute, language, author), key, seen.firing

    def act(self, action: str, incident_id: str, form: Mapping[str, str]) -> None:
        """Perform one of ACTIONS; the next page shows it. Raises ActionError and TABLE_ERRORS."""
        act(self.tables.warehouse, action, incident_id, form, self.now_ms())
        self.tables.look(at_once=True)

    def value_json(self, page: Page, search: str) -> tuple[str, int]:
        """Return the page's value as JSON and the status of the response; of an error its sentence."""
        now_ms = self.now_ms()
        seen = self.tables.look()
        if seen.history is None:
            return as_json({"error": str(seen.trouble)}), 503
        try:
            view, value = self._read(page, search, seen, now_ms, page.read)
        except Exception as error:
            sentence, status = _describe(page, error)
            return as_json({"error": sentence}), status
        left_out = {name: number for name, number in view.history.left_out.items() if name in page.tables}
        return as_json({"now_ms": now_ms, "newest_ms": view.newest_ms, "left_out": left_out, "page": value}), 200

    def _body_in(self, page: Page, search: str, seen: Seen, _minute: int, _language: str, author: str) -> Body:
        """Render a page; ages in it are as of the minute."""
        now_ms = self.now_ms()
        if seen.history is None:
            title = localize(NO_TABLES)
            return Body(title, _message(title, "hint", localize(seen.trouble), now_ms, is_without_tables=True))
        title = localize(page.title)
        try:
            _, html = self._read(page, search, seen, now_ms, lambda view: page.body(replace(view, author=author)))
        except Exception as error:
            sentence, status = _describe(page, error)
            own = phrase("{page} without filters", page=page.title), page.path
            words, path = page.back or own
            is_refused = status == 400  # Bad Request
            back = (localize(words), path) if is_refused else None
            html = _message(title, "error", sentence, now_ms, back=back)
            return Body(title, html, 200 if is_refused else status)
        return Body(title, html)

    def _read(self, page: Page, search: str, seen: Seen, now_ms: int, read: Callable[[View], Any]) -> tuple[View, Any]:
        """Return the view and what `read` makes of it. Raises AskedError and whatever `read` raises."""
        asked = read_asked(search, page.parameters)
        try:
            view = self._view(asked, seen, now_ms)
            return view, read(view)
        except WarehouseError:  # files may have been vacuumed since the refresh
            view = self._view(asked, self.tables.look(at_once=True), now_ms)
            return view, read(view)

    def _view(self, asked: Mapping[str, str], seen: Seen, now_ms: int) -> View:
        if seen.history is None:
            raise WarehouseError(localize(seen.trouble))
        newest_ms, present = seen.newest_ms, self._present.at(now_ms)
        return View(
            seen.history,
            asked,
            now_ms,
            round(self.settings.stale_seconds * 1000),
            None if newest_ms is None else min(newest_ms, now_ms),
            present.oncall.runbook_base_url or runbooks.ROOT,
            present.label_rules,
            make_mutes(present.mutes),
            self.settings.write,
        )


def make_app(board: Board, access: AccessControl) -> Starlette:
    """Return the application of a board behind access control. It loads nothing from other hosts."""
    frame = {"pages": list(board.pages.values()), "assets": asset_url, "version": version("balancewatch")}
    frame["can_write"] = board.settings.write
    every_ms = round(board.settings.refresh_seconds * 1000)
    unknown = phrase("There is no such page; the pages are {pages}.\n", pages=", ".join(sorted(board.pages)))

    def show(request: Request) -> Response:
        page = board.pages.get(request.url.path.rstrip("/") or "/")
        if page is None:
            return PlainTextResponse(localize(unknown), 404)
        author = unpack_author(request.cookies.get(AUTHOR_COOKIE, ""))
        body, key, alerts = board.render(page, request.url.query, request.headers.get("if-none-match"), author)
        headers = {"ETag": key, "X-Now-Ms": str(board.now_ms())}
        if body is None:
            return Response(status_code=304, headers=headers)
        count = f"({alerts['count']}) " if alerts and alerts["count"] else ""
        html = render(
            "frame.html",
            board.now_ms(),
            title=count + body.title,
            path=page.path,
            body=body.html,
            alerts=json.dumps(alerts),
            every_ms=every_ms,
            **frame,
        )
        return HTMLResponse(html, body.status, headers)

    def show_value(request: Request) -> Response:
        name = request.path_params["name"]
        page = next((page for page in board.pages.values() if page.name == name), None)
        if page is None:
            names = ", ".join(f"/api/{page.name}" for page in board.pages.values())
            return PlainTextResponse(f"There is no such value; the values are {names}.\n", 404)
        text, status = board.value_json(page, request.url.query)
        return Response(text, status, media_type="application/json")

    def show_runbook(request: Request) -> Response:
        found = runbooks.rendered(request.path_params.get("name") or runbooks.INDEX, LANGUAGE.get())
        title, html = found or (localize(NO_RUNBOOK), render("no_runbook.html", 0, root=runbooks.ROOT))
        page = render("runbook.html", 0, title=title, path=f"{runbooks.ROOT}/", body=html, **frame)
        return HTMLResponse(page, 200 if found else 404)

    async def take_form(request: Request) -> Response:
        return await _answer_form(board, request, frame)

    def health(_: Request) -> Response:
        is_open = board.tables.can_open()
        return PlainTextResponse("ok\n" if is_open else "no table can be opened\n", 200 if is_open else 503)

    @asynccontextmanager
    async def limit_threads(_: Starlette) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = board.settings.threads
        yield

    return Starlette(
        routes=[
            Route(HEALTH, health),
            Route(runbooks.ROOT, show_runbook),
            Route(f"{runbooks.ROOT}/", show_runbook),
            Route(f"{runbooks.ROOT}/{{name}}", show_runbook),
            Route(f"{API}{{name}}", show_value),
            *(Route(f"{path}{{action}}", take_form, methods=["GET", "POST"]) for path in WRITES),
            Mount(ASSETS, StaticFiles(packages=[("streaming.board", "assets")])),
            Route("/{path:path}", show),
        ],
        middleware=[
            Middleware(Guard, access=access, is_proxy=board.settings.is_proxy, language=board.language),
            Middleware(GZipMiddleware, minimum_size=1_000),
        ],
        lifespan=limit_threads,
    )


class BoardServer:
    """A served board. It listens once constructed; `run` serves until another thread or a signal calls `close`."""

    def __init__(
        self, settings: Settings, clock_ms: Callable[[], int] = wall_ms, access: AccessControl | None = None
    ) -> None:
        """Bind the address. `access` defaults to the settings' access rule.

        Raises SettingsError if others can reach or write without a token, OSError if the address cannot be bound.
        """
        self.board = Board(settings, clock_ms)
        access = access or AccessControl.of(settings.board)
        if settings.board.write and access.token is None:
            raise SettingsError(
                "board.write = true lets the board acknowledge and silence, which requires a token: set the variable "
                f"of board.token_env = {settings.board.token_env!r}"
            )
        app = make_app(self.board, access)
        host = settings.board.host
        self._listening = listen(host, settings.board.port)
        self.port = int(self._listening.getsockname()[1])
        self.url = f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"
        self._server = BoundedServer(app, Bounds(is_proxy=settings.board.is_proxy))

    def run(self) -> None:
        """Serve until `close`, then end requests in flight and release the port."""
        self._server.run(sockets=[self._listening])

    def close(self) -> None:
        """Make `run` return after the requests in flight, within about a second."""
        self._server.should_exit = True


@cache
def asset_url(name: str) -> str:
    """Return the URL of a static file, which changes with its content."""
    content = (files("streaming.board") / "assets" / name).read_bytes()
    return f"{ASSETS}/{name}?v={hashlib.sha256(content).hexdigest()[:12]}"


async def _answer_form(board: Board, request: Request, frame: Mapping[str, Any]) -> Response:
    """Perform the action and lead back to the page. A GET, as after a login, only leads back."""
    page, action = request.url.path.split("/")[1], request.path_params["action"]
    incident_id = request.query_params.get("id", "")
    back = href(f"/{page}", id=incident_id)
    if action not in ACTIONS:
        unknown = phrase("There is no such form; the forms are {forms}.\n", forms=", ".join(ACTIONS))
        return PlainTextResponse(localize(unknown), 404)
    if request.method == "GET":
        return RedirectResponse(back, 303)
    if not board.settings.write:
        return PlainTextResponse(localize(READ_ONLY), 403)
    form = await read_form(request)
    if form is None:
        return PlainTextResponse(localize(TOO_LARGE), 413)
    try:
        await to_thread.run_sync(board.act, action, incident_id, form)
    except ActionError as error:
        sentence, status = localize(phrase("{sentence}.", sentence=str(error).rstrip("."))), 400
    except TABLE_ERRORS as error:
        log.error("form failed", action=action, error=str(error)[:500])
        sentence, status = localize(UNWRITABLE), 503
    else:
        response = RedirectResponse(back, 303)
        if author := pack_author(form):
            is_secure = request.url.scheme == "https"
            response.set_cookie(AUTHOR_COOKIE, author, AUTHOR_SECONDS, httponly=True, samesite="lax", secure=is_secure)
        return response
    title = localize(UNCHANGED)
    html = _message(title, "error", sentence, 0, back=(localize(BACK), back))
    page_html = render("runbook.html", 0, title=title, path="", body=html, **frame)
    return HTMLResponse(page_html, status)


def _describe(page: Page, error: Exception) -> tuple[str, int]:
    """Return the sentence and the status of an error, and log one that is not the reader's."""
    if isinstance(error, AskedError):
        return str(error), 400
    if isinstance(error, WarehouseError):
        log.warning("page query failed", page=page.name, error=str(error))
        return localize(UNREADABLE), 503
    log.error("page failed", page=page.name, exc_info=error)
    return localize(FAILED), 500


def _message(title: str, look: str, sentence: str, now_ms: int, **more: Any) -> str:
    values = {"back": None, "is_without_tables": False, **more}
    return render("message.html", now_ms, title=title, look=look, sentence=sentence, **values)
