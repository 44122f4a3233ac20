"""The endpoint: /metrics for Prometheus, /healthz and /readyz for whoever keeps the process running.

It is served from before Spark starts until after it has stopped, by threads of its own.
"""

import hmac
import json
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import structlog
from waitress.server import create_server

from conf.metrics import Metrics
from conf.oncall import read_secret
from conf.section import SettingsError
from streaming.metrics.exporter import TEXT

THREADS = 2
MOST_CONNECTIONS = 50
IDLE_SECONDS = 20

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
        status, kind, body = self._answer(environ)
        head = [("Content-Type", kind), ("Content-Length", str(len(body))), ("X-Content-Type-Options", "nosniff")]
        start(status, head)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, environ: WSGIEnvironment) -> tuple[str, str, bytes]:
        path = environ["PATH_INFO"]
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _plain("405 Method Not Allowed", "these pages are only read")
        if path in self._checks:
            reasons = list(self._checks[path]())
            body = {"status": "failing" if reasons else "ok", "reasons": reasons}
            return "503 Service Unavailable" if reasons else "200 OK", "application/json", json.dumps(body).encode()
        if path != "/metrics":
            return _plain("404 Not Found", "there are /metrics, /healthz and /readyz")
        if self._token is not None and not _shows(environ.get("HTTP_AUTHORIZATION", ""), self._token):
            return _plain("401 Unauthorized", "send the token of metrics.token_env: Authorization: Bearer TOKEN")
        return "200 OK", TEXT, self._text()


class Server:
    """Serves an endpoint in threads. Use as a context manager."""

    def __init__(self, settings: Metrics, endpoint: Endpoint, *, key: str = "port") -> None:
        """`key` is the setting that holds the port. Raises SettingsError for an address that cannot be had."""
        self._sockets: dict[int, Any] = {}
        listening = _bind(settings.host, getattr(settings, key), key)
        self.port = int(listening.getsockname()[1])
        self._server: Any = create_server(
            endpoint,
            map=self._sockets,
            sockets=[listening],
            threads=THREADS,
            connection_limit=MOST_CONNECTIONS,
            channel_timeout=IDLE_SECONDS,
            max_request_body_size=1 << 10,
            max_request_header_size=1 << 14,
            ident=None,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="metrics", daemon=True)
        self._thread.start()
        log.info("metrics are served", url=f"http://{settings.host}:{self.port}/metrics")
        if not settings.is_loopback and not settings.token_env:
            log.warning("anybody who reaches the host reads the names of groups and brokers", host=settings.host)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stop.set()
        self._server.pull_trigger()
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        """The loop ends here, so that the sockets are closed by the one thread that uses them."""
        while not self._stop.is_set():
            self._server.asyncore.loop(timeout=1, map=self._sockets, count=1)
        self._server.task_dispatcher.shutdown()
        self._server.asyncore.close_all(self._sockets)


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
