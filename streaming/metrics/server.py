"""The HTTP endpoint: /metrics for Prometheus, /healthz and /readyz for the orchestrator.

Its threads run from before Spark starts until after it has stopped. The health checks have a second port, so that load
on the metrics port does not make an orchestrator kill the process.
"""

import hmac
import json
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import structlog
from waitress import wasyncore

from conf.metrics import Metrics
from conf.oncall import read_secret
from conf.section import SettingsError
from streaming.metrics.exporter import TEXT
from streaming.system.bounded_server import BoundedServer, Bounds
from streaming.text.visible_text import visible_label

THREADS = 2
BOUNDS = Bounds(50, 20, idle_seconds=20, request_seconds=15, answer_seconds=60)
HEALTH_BOUNDS = Bounds(50, 20, head_seconds=5, idle_seconds=20, request_seconds=10, answer_seconds=10)
HEALTH_KEYS = {"port": "health_port", "relay_port": "relay_health_port"}
"""Setting of the metrics port to the setting of its health port."""

log = structlog.get_logger()


class Endpoint:
    """The pages as a WSGI application. `alive` and `ready` give the reasons why it is not."""

    def __init__(
        self,
        text: Callable[[], bytes],
        alive: Callable[[], Iterable[str]],
        ready: Callable[[], Iterable[str]],
        token: str | None = None,
    ) -> None:
        self._text, self._token = text, token
        self._checks = {"/healthz": alive, "/readyz": ready}

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        return self._send(self._answer(environ), environ, start)

    def checks_alone(self, environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        """The same without the metrics."""
        is_check = environ["PATH_INFO"] in self._checks
        answer = (
            self._answer(environ) if is_check else _plain("404 Not Found", "not found; available: /healthz and /readyz")
        )
        return self._send(answer, environ, start)

    def _send(self, answer: tuple[str, str, bytes], environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        status, kind, body = answer
        head = [("Content-Type", kind), ("Content-Length", str(len(body))), ("X-Content-Type-Options", "nosniff")]
        start(status, head)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, environ: WSGIEnvironment) -> tuple[str, str, bytes]:
        path = environ["PATH_INFO"]
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _plain("405 Method Not Allowed", "only GET and HEAD are allowed")
        if path in self._checks:
            reasons = list(self._checks[path]())
            body = {"status": "failing" if reasons else "ok", "reasons": reasons}
            return "503 Service Unavailable" if reasons else "200 OK", "application/json", json.dumps(body).encode()
        if path != "/metrics":
            return _plain("404 Not Found", "not found; available: /metrics, /healthz and /readyz")
        if self._token is not None and not _shows(environ.get("HTTP_AUTHORIZATION", ""), self._token):
            return _plain("401 Unauthorized", "send the token of metrics.token_env as `Authorization: Bearer TOKEN`")
        return "200 OK", TEXT, visible_label(self._text().decode()).encode()


class Server:
    """Serves an endpoint in threads, and its checks at a socket with a thread of its own. Use as a context manager."""

    def __init__(self, settings: Metrics, endpoint: Endpoint, *, key: str = "port") -> None:
        """`key` is the setting that holds the port. Raises SettingsError for an address that cannot be had."""
        listening = _bind(settings.host, getattr(settings, key), key)
        self._metrics = _Loop("metrics", endpoint, listening, THREADS, BOUNDS)
        self._thread, self.port = self._metrics.thread, self._metrics.port
        log.info("metrics server started", url=f"http://{settings.host}:{self.port}/metrics")
        self._health = _serve_health(settings, endpoint, HEALTH_KEYS[key], is_any=getattr(settings, key) == 0)
        self.health_port = self._health.port if self._health else None
        """None if its port was taken; /healthz and /readyz then answer only at the metrics port."""
        if not settings.is_loopback and not settings.token_env:
            log.warning("metrics exposed without a token", host=settings.host)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for loop in filter(None, (self._metrics, self._health)):
            loop.close()


class _Loop:
    """A listening socket with the thread of its connections and the threads that answer."""

    def __init__(self, name: str, application: WSGIApplication, listening: socket.socket, threads: int, of: Bounds):
        self.port = int(listening.getsockname()[1])
        self._sockets: dict[int, Any] = {}
        self._server = BoundedServer(
            application,
            listening,
            self._sockets,
            of,
            threads=threads,
            max_request_body_size=1 << 10,
            max_request_header_size=1 << 14,
            ident=None,
        )
        self._stop = threading.Event()
        self._closing = threading.Lock()
        """Held to wake the loop and to close its sockets: a number that was closed may be another file's by then."""
        self.thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self.thread.start()

    def close(self) -> None:
        with self._closing:
            if not self._stop.is_set():
                self._stop.set()
                self._server.pull_trigger()
        self.thread.join(timeout=5)

    def _serve(self) -> None:
        """The loop ends here, so that the sockets are closed by the one thread that uses them."""
        while not self._stop.is_set():
            wasyncore.loop(timeout=1, use_poll=True, map=self._sockets, count=1)
        self._server.task_dispatcher.shutdown()
        with self._closing:
            wasyncore.close_all(self._sockets)


def _serve_health(settings: Metrics, endpoint: Endpoint, key: str, *, is_any: bool) -> _Loop | None:
    """Serve the health checks at a second port; `is_any` takes a free one. A taken port is logged and not fatal."""
    try:
        listening = _bind(settings.host, 0 if is_any else getattr(settings, key), key)
    except SettingsError as error:
        log.warning("health port unavailable, using the metrics port", error=str(error))
        return None
    loop = _Loop("health", endpoint.checks_alone, listening, 1, HEALTH_BOUNDS)
    log.info("health server started", url=f"http://{settings.host}:{loop.port}/healthz")
    return loop


def read_token(settings: Metrics) -> str | None:
    """What a scraper must show; None where nothing. Raises SettingsError where the environment has no usable one."""
    if not settings.token_env:
        return None
    token = read_secret("metrics.token_env", settings.token_env)
    if not token.isascii() or not token.isprintable():
        raise SettingsError(
            f"metrics.token_env = {settings.token_env!r}: no scraper can show the token in it; take printable ASCII"
        )
    return token


def _bind(host: str, port: int, key: str) -> socket.socket:
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)  # create_server leaves its socket open when this raises
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, TypeError, ValueError) as error:  # the latter two for what is no name at all
        reason = (getattr(error, "strerror", None) or str(error)).partition(" (while")[0]
        raise SettingsError(
            f"metrics.{key} = {port} on metrics.host = {host!r}: {reason}; "
            "name another, 0 for a free one, or set metrics.enabled = false"
        ) from None


def _shows(authorization: str, token: str) -> bool:
    kind, _, shown = authorization.partition(" ")
    return kind.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), token.encode())


def _plain(status: str, sentence: str) -> tuple[str, str, bytes]:
    return status, "text/plain; charset=utf-8", f"{sentence}\n".encode()
