"""The HTTP endpoint: /metrics for Prometheus, /healthz and /readyz for the orchestrator.

Its threads run from before Spark starts until after it has stopped. The health checks have a second port, so that load
on the metrics port does not make an orchestrator kill the process.
"""

import hmac
import json
import threading
from collections.abc import Callable, Iterable, Mapping

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from conf.oncall import read_secret
from conf.section import SettingsError
from conf.settings import Metrics
from streaming.metrics.exporter import TEXT
from streaming.system.bounded_server import BoundedServer, Bounds, listen
from streaming.text.visible_text import visible_label

BOUNDS = Bounds(50, 20, idle_seconds=20, request_seconds=15, answer_seconds=60)
HEALTH_BOUNDS = Bounds(50, 20, head_seconds=5, idle_seconds=20, request_seconds=10, answer_seconds=10)
HEALTH_KEYS = {"port": "health_port", "relay_port": "relay_health_port"}
"""Setting of the metrics port to the setting of its health port."""

HEADERS = {"X-Content-Type-Options": "nosniff"}

Pages = Mapping[str, Callable[[Request], Response]]

log = structlog.get_logger()


class Server:
    """Serves the metrics and the health checks in threads. Use as a context manager."""

    def __init__(
        self,
        settings: Metrics,
        text: Callable[[], bytes],
        alive: Callable[[], Iterable[str]],
        ready: Callable[[], Iterable[str]],
        *,
        key: str = "port",
    ) -> None:
        """`alive` and `ready` return the reasons why it is not; `key` is the setting that holds the port.

        Raises SettingsError for an address that cannot be bound, or a missing or unusable token.
        """
        token = _read_token(settings)
        checks: Pages = {"/healthz": lambda _: _check(alive), "/readyz": lambda _: _check(ready)}

        def metrics(request: Request) -> Response:
            kind, _, shown = request.headers.get("authorization", "").partition(" ")
            if token is not None and not (
                kind.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), token.encode())
            ):
                return _plain("send the token of metrics.token_env as `Authorization: Bearer TOKEN`", 401)
            return Response(visible_label(text().decode()), headers=HEADERS, media_type=TEXT)

        port, health_key = getattr(settings, key), HEALTH_KEYS[key]
        self._metrics = _Loop("metrics", {"/metrics": metrics, **checks}, settings.host, port, key, BOUNDS)
        self.port = self._metrics.port
        log.info("metrics server started", url=f"http://{settings.host}:{self.port}/metrics")
        self._health: _Loop | None = None
        health_port = getattr(settings, health_key) if port else 0
        try:
            self._health = _Loop("health", checks, settings.host, health_port, health_key, HEALTH_BOUNDS)
            log.info("health server started", url=f"http://{settings.host}:{self._health.port}/healthz")
        except SettingsError as error:
            log.warning("health port unavailable, using the metrics port", error=str(error))
        self.health_port = self._health.port if self._health else None
        """None if its port was taken; /healthz and /readyz then answer only at the metrics port."""
        if not settings.is_loopback and not settings.token_env:
            log.warning("metrics exposed without a token", host=settings.host)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End requests in flight and release the ports."""
        for loop in filter(None, (self._metrics, self._health)):
            loop.close()


class _Loop:
    """Pages served at a listening socket, in a thread."""

    def __init__(self, name: str, pages: Pages, host: str, port: int, key: str, bounds: Bounds) -> None:
        try:
            listening = listen(host, port)
        except (OSError, TypeError, ValueError) as error:  # the latter two for an impossible name
            reason = (getattr(error, "strerror", None) or str(error)).partition(" (while")[0]
            raise SettingsError(
                f"metrics.{key} = {port} on metrics.host = {host!r}: {reason}; "
                "name another, 0 for a free one, or set metrics.enabled = false"
            ) from None
        self.port = int(listening.getsockname()[1])
        *first, last = pages
        missing = f"not found; available: {', '.join(first)} and {last}"
        app = Starlette(
            routes=[Route(path, page) for path, page in pages.items()],
            exception_handlers={
                404: lambda *_: _plain(missing, 404),
                405: lambda *_: _plain("only GET and HEAD are allowed", 405),
            },
        )
        self._server = BoundedServer(app, bounds)
        run = {"sockets": [listening]}
        self.thread = threading.Thread(target=self._server.run, kwargs=run, name=name, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        self.thread.join(timeout=5)


def _read_token(settings: Metrics) -> str | None:
    """Return the token that a scraper must send; None without one. Raises SettingsError."""
    if not settings.token_env:
        return None
    token = read_secret("metrics.token_env", settings.token_env)
    if not token.isascii() or not token.isprintable():
        raise SettingsError(
            f"metrics.token_env = {settings.token_env!r}: no scraper can show the token in it; take printable ASCII"
        )
    return token


def _check(reasons_of: Callable[[], Iterable[str]]) -> Response:
    reasons = list(reasons_of())
    body = {"status": "failing" if reasons else "ok", "reasons": reasons}
    return Response(json.dumps(body), 503 if reasons else 200, HEADERS, "application/json")


def _plain(sentence: str, status: int) -> Response:
    return PlainTextResponse(f"{sentence}\n", status, headers=HEADERS)
