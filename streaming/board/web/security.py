"""Access control and security headers: token, session cookie, host names.

On the loopback, a token is required only if one is set, and the check of the Host header prevents DNS rebinding.
Reachable by others, through its address or a proxy, the board requires the token or its session cookie for every
request except `/healthz`.
"""

import hashlib
import hmac
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

import structlog
from dash import Dash
from flask import Request, Response, redirect, request

from conf.board import Board
from conf.oncall import read_secret
from conf.section import SettingsError
from streaming.board.web import health
from streaming.board.web.login_page import login_page
from streaming.board.web.login_throttle import LoginThrottle

LEAST_TOKEN = 16
COOKIE = "balancewatch_board"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

FIXED = ("/_dash-component-suites/", "/assets/", "/plotly-")
"""Static files without data, which browsers may cache."""

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
    def of(cls, settings: Board) -> "AccessControl":
        """Return the rule of these settings; a token that is set is required on the loopback too.

        Raises SettingsError if others can reach the board and the token is missing or too short.
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
            raise SettingsError(f"{opening} opens the board to others, which requires a token: {error}") from None
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
        if (
            not ends.isascii()
            or not ends.isdigit()
            or not hmac.compare_digest(_digest(signature), _digest(self._sign(ends)))
        ):
            return False
        return int(ends) > self.clock()

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


def guard_app(app: Dash, access: AccessControl) -> None:
    """Put access control before every route but `/healthz`, and security headers on every response."""
    hashes = " ".join(app.csp_hashes())
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' {hashes}",
            "style-src 'self' 'unsafe-inline'",  # Plotly writes its styles into the page
            "img-src 'self' data: blob:",
            "font-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )
    tries = LoginThrottle(access.clock)

    def come_in() -> Response | None:
        if request.path == health.PATH:
            return None
        if not access.answers_to(request.host):
            return _refuse(421, "This host name is not allowed; board.allowed_hosts lists the allowed ones.")
        origin = request.headers.get("Origin")
        if origin and _host_of(origin) != request.host.lower():
            return _refuse(403, "Cross-site requests are refused.")
        return _ask_for_token(access, tries) if access.token is not None else None

    def dress(response: Response) -> Response:
        response.headers.update(HEADERS)
        response.headers["Content-Security-Policy"] = policy
        if not request.path.startswith(FIXED) or response.status_code != 200:
            response.headers["Cache-Control"] = "no-store"
        return response

    app.server.before_request(come_in)
    app.server.after_request(dress)


def _host_of(origin: str) -> str | None:
    """Return the host of an Origin header; None for an invalid one."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _ask_for_token(access: AccessControl, tries: LoginThrottle) -> Response | None:
    """Return None for an authorised request; else the login page, a refusal, or a redirect with a cookie."""
    if access.is_session(request.cookies.get(COOKIE, "")):
        return _without_token(request) if "token" in request.args or _is_form(request) else None
    given, is_bearer = _given_token(request)
    if given is None:
        return login_page(401)
    if not access.is_token(given):
        return _refuse_token(tries)
    if is_bearer:
        return None
    response = _without_token(request)
    response.set_cookie(
        COOKIE,
        access.session(),
        max_age=int(access.session_seconds),
        httponly=True,
        samesite="Lax",  # links in chats must work; GETs only read, and POSTs are checked against Origin
        secure=request.is_secure,
        path="/",
    )
    return response


def _refuse_token(tries: LoginThrottle) -> Response:
    """Refuse a wrong token. A correct one never waits: behind a proxy, all requests may come from one address."""
    address = request.remote_addr or "?"
    wait = tries.wait_seconds(address)
    if wait > 0:
        response = login_page(429, f"Too many wrong tokens; try again in {wait} s.")
        response.headers["Retry-After"] = str(wait)
        return response
    tries.note(address)
    log.warning("wrong token refused", address=address)
    return login_page(401, "Wrong token.")


def _given_token(asked: Request) -> tuple[str | None, bool]:
    """Return the token of the request, and whether it is a bearer token."""
    scheme, _, bearer = asked.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return bearer.strip(), True
    if _is_form(asked):
        return asked.form.get("token"), False
    return asked.args.get("token"), False


def _is_form(asked: Request) -> bool:
    """Return whether this is the login form; no other page posts a form."""
    return asked.method == "POST" and asked.mimetype == "application/x-www-form-urlencoded"


def _without_token(asked: Request) -> Response:
    """Redirect to the same URL without the token, always on this host."""
    rest = [(name, value) for name, value in asked.args.items(multi=True) if name != "token"]
    path = "/" + asked.path.lstrip("/")
    return redirect(path + (f"?{urlencode(rest)}" if rest else ""), 303)  # type: ignore[return-value]  # Flask's own Response


def _refuse(code: int, sentence: str) -> Response:
    return Response(sentence + "\n", code, mimetype="text/plain")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()
