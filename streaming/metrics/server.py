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

BOUNDS = Bounds(50, 20, idle_seconds=20, answer_seconds=60)
HEALTH_BOUNDS = Bounds(50, 20, request_seconds=5, idle_seconds=20, answer_seconds=10)
HEALTH_KEYS = {"port": "health_port", "relay_port": "relay_health_port"}
"""Setting of the metrics port to the setting of its health port."""

HEADERS = {"X-Content-Type-Options": "nosniff"}

Pages = Mapping[str, Callable[[Request], Response]]

log = structlog.get_logger()


class Server:
    """Serves the metrics and the health checks in threads, until `close`."""

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

        Raises SettingsError for an address that cannot be bound, or a missing token.
        """
        token = read_secret("metrics.token_env", settings.token_env) if settings.token_env else None
        checks: Pages = {"/healthz": lambda _: _check(alive), "/readyz": lambda _: _check(ready)}

        def metrics(request: Request) -> Response:
            kind, _, shown = request.headers.get("authorization", "").partition(" ")
            if token is not None and not (
                kind.lower() == "bearer" and hmac.compare_digest(shown.strip(" ").encode("latin-1"), token.encode())
            ):
                return _plain("send the token of metrics.token_env as `Authorization: Bearer TOKEN`", 401)
            return Response(visible_label(text().decode()), headers=HEADERS, media_type=TEXT)

        self._host = settings.host
        self._served: list[tuple[BoundedServer, threading.Thread]] = []
        port, health_key = getattr(settings, key), HEALTH_KEYS[key]
        self.port = self._serve("metrics", {"/metrics": metrics, **checks}, key, port, BOUNDS)
        log.info("metrics server started", url=f"http://{settings.host}:{self.port}/metrics")
        self.health_port: int | None = None
        """None if its port was taken; /healthz and /readyz then answer only at the metrics port."""
        health_port = getattr(settings, health_key) if port else 0
        try:
            self.health_port = self._serve("health", checks, health_key, health_port, HEALTH_BOUNDS)
            log.info("health server started", url=f"http://{settings.host}:{self.health_port}/healthz")
        except SettingsError as error:
            log.warning("health port unavailable, using the metrics port", error=str(error))
        if not settings.is_loopback and not settings.token_env:
            log.warning("metrics exposed without a token", host=settings.host)

    def _serve(self, name: str, pages: Pages, key: str, port: int, bounds: Bounds) -> int:
        """Serve the pages in a thread; return the port. Raises SettingsError."""
        try:
            listening = listen(self._host, port)
        except (OSError, TypeError, ValueError) as error:  # the latter two for an impossible name
            reason = (getattr(error, "strerror", None) or str(error)).partition(" (while")[0]
            raise SettingsError(
                f"metrics.{key} = {port} on metrics.host = {self._host!r}: {reason}; "
                "name another, 0 for a free one, or set metrics.enabled = false"
            ) from None
        bound_port = int(listening.getsockname()[1])
        *first, last = pages
        missing = f"not found; available: {', '.join(first)} and {last}"
        app = Starlette(
            routes=[Route(path, page) for path, page in pages.items()],
            exception_handlers={
                404: lambda *_: _plain(missing, 404),
                405: lambda *_: _plain("only GET and HEAD are allowed", 405),
            },
        )
        server, sockets = BoundedServer(app, bounds), {"sockets": [listening]}
        thread = threading.Thread(target=server.run, kwargs=sockets, name=name, daemon=True)
        thread.start()
        self._served.append((server, thread))
        return bound_port

    def close(self) -> None:
        """End requests in flight and release the ports."""
        for server, thread in self._served:
            server.should_exit = True
            thread.join(timeout=5)


def _check(reasons_of: Callable[[], Iterable[str]]) -> Response:
    reasons = list(reasons_of())
    body = {"status": "failing" if reasons else "ok", "reasons": reasons}
    return Response(json.dumps(body), 503 if reasons else 200, HEADERS, "application/json")


def _plain(sentence: str, status: int) -> Response:
    return PlainTextResponse(f"{sentence}\n", status, headers=HEADERS)
