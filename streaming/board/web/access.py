"""Access control and security headers: token, session cookie, host names, trusted proxy.

On the loopback, a token is required only if one is set, and the check of the Host header prevents DNS rebinding.
Reachable by others, through its address or a proxy, the board requires the token or its session cookie for every
request except `/healthz`.
"""

import base64
import hashlib
import hmac
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlencode

import structlog
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from conf.board import Board
from conf.oncall import read_secret
from conf.section import SettingsError
from streaming.board.page import render
from streaming.text.language import LANGUAGE, localize
from udfs.alerts.phrase import phrase

HEALTH = "/healthz"
"""Needs no token and accepts any host name, as a load balancer's check has neither; its answer has no data."""

API = "/api/"
"""Values for programs, in English."""

ASSETS = "/assets"
"""Static files without data, which browsers may cache."""

WRITES = ("/incident/", "/silences/")
"""Beginnings of the paths that forms of a writable board post to; see `web/actions.py`."""

LEAST_TOKEN = 16
COOKIE = "balancewatch_board"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
LARGEST_FORM = 64 * 1024

WINDOW_SECONDS = 60
MOST_WRONG = 20
"""Wrong tokens within WINDOW_SECONDS that are logged; further ones are refused unlogged."""

LOGIN_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 26rem; margin: 15vh auto 0; padding: 0 1rem; }
input, button { font: inherit; padding: .5rem .75rem; width: 100%; box-sizing: border-box; margin-top: .5rem; }
"""
"""In the page, since the style sheet needs the token too; the policy has its hash."""

CROSS_SITE = phrase("Cross-site requests are refused.\n")
TOO_LARGE = phrase("The form is too large.\n")

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            f"style-src 'self' 'sha256-{base64.b64encode(hashlib.sha256(LOGIN_STYLE.encode()).digest()).decode()}'",
            "img-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    ),
}

log = structlog.get_logger()


@dataclass(frozen=True)
class AccessControl:
    """The access rule. Without a token, requests to the allowed host names are accepted."""

    names: frozenset[str]
    token: str | None = field(default=None, repr=False)
    session_seconds: float = 0.0
    clock: Callable[[], float] = time.time
    """Epoch seconds."""

    @classmethod
    def of(cls, settings: Board, served: str = "the board") -> "AccessControl":
        """Return the rule of these settings; a token that is set is required on the loopback too.

        Raises SettingsError if others can reach what is served and the token is missing or too short.
        """
        local = LOOPBACK | {(f"[{settings.host}]" if ":" in settings.host else settings.host).lower()}
        names = frozenset(name.lower() for name in settings.allowed_hosts)
        opening = _opening(settings, names - local)
        if opening is None and settings.token_env not in os.environ:
            return cls(names | local)
        try:
            token = read_secret("board.token_env", settings.token_env)
        except SettingsError as error:
            if opening is None:
                raise SettingsError(
                    f"board.token_env = {settings.token_env!r}: the variable is empty; set it to the token, or unset it"
                ) from None
            raise SettingsError(f"{opening} opens {served} to others, which requires a token: {error}") from None
        if len(token) < LEAST_TOKEN:
            raise SettingsError(
                f"board.token_env = {settings.token_env!r}: the token has fewer than {LEAST_TOKEN} characters; "
                "make one with: openssl rand -hex 24"
            )
        return cls(names | local if settings.is_loopback and names else names, token, settings.session_hours * 3600)

    def answers_to(self, host: str) -> bool:
        """Return whether the Host header is allowed. With a token, any is, unless settings list some."""
        if self.token is not None and not self.names:
            return True
        name = host.lower()
        name = name[: name.index("]") + 1] if name.startswith("[") and "]" in name else name.partition(":")[0]
        return name in self.names

    def is_token(self, given: str) -> bool:
        """Return whether this is the token, in constant time."""
        return self.token is not None and hmac.compare_digest(_digest(given), _digest(self.token))

    def session(self) -> str:
        """Return a session cookie: its end and a signature made with the token, not the token itself."""
        ends = str(int(self.clock() + self.session_seconds))
        return f"{ends}.{self._sign(ends)}"

    def is_session(self, value: str) -> bool:
        """Return whether the session cookie is valid and has not ended."""
        ends, _, signature = value[:200].partition(".")
        is_number = ends.isascii() and ends.isdigit()
        is_signed = hmac.compare_digest(_digest(signature), _digest(self._sign(ends)))
        return is_number and is_signed and int(ends) > self.clock()

    def _sign(self, ends: str) -> str:
        key = hashlib.sha256(b"balancewatch board session\0" + (self.token or "").encode()).digest()
        return hmac.new(key, ends.encode(), hashlib.sha256).hexdigest()


def _opening(settings: Board, foreign: frozenset[str]) -> str | None:
    """Return the setting that lets others reach the board; None if only this machine can."""
    if not settings.is_loopback:
        return f"board.host = {settings.host!r}"
    if settings.trusted_proxy:
        return f"board.trusted_proxy = {settings.trusted_proxy!r}"
    if foreign:
        return f"board.allowed_hosts = {list(settings.allowed_hosts)!r}"
    return None


class Guard:
    """Middleware: access control before every route but `/healthz`, and security headers on every response.

    `is_proxy` says whose X-Forwarded headers are used. Texts are in the `language` of the moment, those of programs in
    English.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: AccessControl,
        is_proxy: Callable[[str], bool],
        language: Callable[[], str] = lambda: "en",
    ) -> None:
        self._app, self._access, self._is_proxy, self._language = app, access, is_proxy, language
        self._wrong: deque[float] = deque(maxlen=MOST_WRONG)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        LANGUAGE.set("en" if scope["path"].startswith(API) else self._language())
        if scope["client"] and self._is_proxy(scope["client"][0]):
            _follow_proxy(scope)
        is_fixed = scope["path"].startswith(f"{ASSETS}/") and scope["query_string"].startswith(b"v=")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                is_kept = is_fixed and message["status"] == 200
                headers["Cache-Control"] = "private, max-age=31536000, immutable" if is_kept else "no-store"
            await send(message)

        request = Request(scope, receive)
        refusal = None if scope["path"] == HEALTH else await self._refuse(request)
        await (refusal or self._app)(scope, receive, send_with_headers)

    async def _refuse(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if not self._access.answers_to(host):
            sentence = phrase("This host name is not allowed; board.allowed_hosts lists the allowed ones.\n")
            return PlainTextResponse(localize(sentence), 421)
        origin = request.headers.get("origin")
        if origin and origin.partition("://")[2].lower() != host.lower():
            return PlainTextResponse(localize(CROSS_SITE), 403)
        return None if self._access.token is None else await self._ask_for_token(request)

    async def _ask_for_token(self, request: Request) -> Response | None:
        """Return None for an authorised request; else the login page, a refusal, or a redirect with a cookie."""
        access = self._access
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_form = request.method == "POST" and kind == "application/x-www-form-urlencoded"  # no other page posts one
        if access.is_session(request.cookies.get(COOKIE, "")):
            return _within_session(request, is_form=is_form)
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        is_bearer = scheme.lower() == "bearer"
        given = bearer.strip() if is_bearer else request.query_params.get("token")
        if is_form and not is_bearer:
            form = await read_form(request)
            if form is None:
                return PlainTextResponse(localize(TOO_LARGE), 413)
            given = form.get("token")
        if given is None:
            return _login_page(401)
        if not access.is_token(given):
            return self._refuse_token(request)
        if is_bearer:
            return None
        response = _without_token(request)
        response.set_cookie(
            COOKIE,
            access.session(),
            max_age=int(access.session_seconds),
            httponly=True,
            samesite="lax",  # links in chats must work; GETs only read, and POSTs are checked against Origin
            secure=request.url.scheme == "https",
            path="/",
        )
        return response

    def _refuse_token(self, request: Request) -> Response:
        """Refuse a wrong token. The limit keeps the log short; a correct one never waits."""
        now = self._access.clock()
        passed = now - self._wrong[0] if len(self._wrong) == MOST_WRONG else WINDOW_SECONDS
        if 0 <= passed < WINDOW_SECONDS:
            wait = int(WINDOW_SECONDS - passed) + 1
            response = _login_page(429, localize(phrase("Too many wrong tokens; try again in {wait} s.", wait=wait)))
            response.headers["Retry-After"] = str(wait)
            return response
        self._wrong.append(now)
        log.warning("wrong token refused", address=request.client.host if request.client else "?")
        return _login_page(401, localize(phrase("Wrong token.")))


def _follow_proxy(scope: Scope) -> None:
    """Take scheme, host and client from the last entries of the trusted proxy's headers."""
    forwarded = {name: value.decode("latin-1").rpartition(",")[2].strip() for name, value in scope["headers"]}
    if (scheme := forwarded.get(b"x-forwarded-proto", "")) in ("http", "https"):
        scope["scheme"] = scheme
    if host := forwarded.get(b"x-forwarded-host"):
        others = [(name, value) for name, value in scope["headers"] if name != b"host"]
        scope["headers"] = [*others, (b"host", host.encode("latin-1"))]
    if client := forwarded.get(b"x-forwarded-for"):
        scope["client"] = (client, 0)


def _within_session(request: Request, *, is_form: bool) -> Response | None:
    """Return None for a page, or a form that one of this board's pages posted to WRITES; else a redirect or a refusal.

    The Origin is known to be right if there is one.
    """
    if request.method == "POST" and request.scope["path"].startswith(WRITES):
        site = request.headers.get("sec-fetch-site")
        is_own = "origin" in request.headers if site is None else site == "same-origin"
        return None if is_own else PlainTextResponse(localize(CROSS_SITE), 403)
    return _without_token(request) if "token" in request.query_params or is_form else None


async def read_form(request: Request) -> dict[str, str] | None:
    """Return the fields of a form, the last of each name; None if it is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_FORM:
            return None
    return dict(parse_qsl(body.decode("utf-8", "replace"), errors="replace"))


def _without_token(request: Request) -> Response:
    """Redirect to the same URL without the token, always on this host."""
    query = [(name, value) for name, value in parse_qsl(request.url.query, errors="replace") if name != "token"]
    path = "/" + quote(request.url.path.lstrip("/"), safe="/")
    return Response(status_code=303, headers={"Location": path + (f"?{urlencode(query)}" if query else "")})


def _login_page(status: int, sentence: str = "") -> Response:
    """Return the form without script, which posts the token to the requested page, with the previous error."""
    response = HTMLResponse(render("login.html", 0, sentence=sentence, style=LOGIN_STYLE), status)
    if status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="balancewatch board"'
    return response


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()
