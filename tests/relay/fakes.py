"""Receivers' other ends, played: an HTTP server that follows a script, and on it the vendors as they would judge.

    with FakePagerDuty() as vendor:
        vendor.script(Reply(500), Reset(), Hang())   # for the next three requests; after them it judges itself
        receiver = PagerDuty("pager", vendor.url, secret=ROUTING_KEY)
        ...
        assert vendor.counts("dedup_key") == {"a-1": 4}

Each request is kept in `received`, also those that were answered by a reset. `wait_for(n)` returns once there are n.
Leaving the `with` ends every hanging answer at once, so a test never sleeps for one.
"""

import contextlib
import json
import os
import socket
import struct
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

BODY_LIMIT = 4 << 20


@dataclass(frozen=True)
class Received:
    """One request as it came. `fields` is its JSON body; header names are in lower case."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    fields: Any


@dataclass(frozen=True)
class Reply:
    """An answer. `body` is bytes, or an object that is sent as JSON."""

    code: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hang:
    """No answer until the fake is closed."""


@dataclass(frozen=True)
class Reset:
    """The connection is reset (RST) once the request is read."""


@dataclass(frozen=True)
class Half:
    """Content-Length promises more than the `body` that is sent; then the connection closes."""

    code: int = 200
    body: bytes = b'{"status": '


@dataclass(frozen=True)
class Drip:
    """A byte every `pause_seconds`, headers included, until the fake is closed or the client has gone.

    With a `code` the head comes at once, and `body` of what drips as well.
    """

    pause_seconds: float = 0.02
    code: int | None = None
    body: bytes = b""


Behaviour = Reply | Hang | Reset | Half | Drip


class _Server(ThreadingHTTPServer):
    """Does not print a traceback when a client hangs up, which many tests make it do."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class FakeServer:
    """Answers as scripted, one behaviour a request in order of arrival; then by `judge`, which is 200 here."""

    path = "/"

    def __init__(self, port: int = 0) -> None:
        """Listen at `port`, by default a free one."""
        self.received: list[Received] = []
        self._script: list[Behaviour] = []
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def root(self) -> str:
        """http://127.0.0.1:port"""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The address to configure."""
        return self.root + self.path

    def script(self, *behaviours: Behaviour) -> None:
        """Play these for the next requests, after what is scripted already."""
        with self._changed:
            self._script.extend(behaviours)

    def judge(self, request: Received) -> Reply:
        """What the vendor would answer."""
        return Reply(200, {"status": "success"})

    def keys(self, request: Received) -> Mapping[str, Any]:
        """Where `counts` looks for its name."""
        return {**request.headers, **(request.fields if isinstance(request.fields, dict) else {})}

    def counts(self, name: str) -> Counter[str]:
        """How often each value of a body's field, or of a header, came: what came twice counts two."""
        with self._changed:
            return Counter(str(self.keys(one)[name]) for one in self.received if name in self.keys(one))

    def wait_for(self, requests: int, seconds: float = 60.0) -> list[Received]:
        """All that has been received, once there are so many. Fails after `seconds`."""
        return self.wait_until(lambda received: len(received) >= requests, f"{requests} requests", seconds)

    def wait_until(
        self, is_there: Callable[[list[Received]], bool], what: str, seconds: float = 60.0
    ) -> list[Received]:
        """All that has been received, once `is_there`. Fails with `what` after `seconds`."""
        with self._changed:
            found = self._changed.wait_for(lambda: is_there(self.received), seconds)
            assert found, f"not within {seconds:.0f} s: {what}; {len(self.received)} requests came"
            return list(self.received)

    def take(self, request: Received) -> Behaviour:
        """Keep the request, and say how it is answered."""
        with self._changed:
            self.received.append(request)
            self._changed.notify_all()
            return self._script.pop(0) if self._script else self.judge(request)

    def is_closed_within(self, seconds: float) -> bool:
        return self._closing.wait(seconds)

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _handler(fake: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60.0
        disable_nagle_algorithm = True  # headers and body are two writes: the second would wait 40 ms for the first

        def do_POST(self) -> None:
            behaviour = fake.take(self._read())
            with contextlib.suppress(OSError):  # the client has gone
                self._play(behaviour)

        def _read(self) -> Received:
            body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), BODY_LIMIT))
            parts = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                fields = json.loads(body)
            except ValueError:
                fields = None
            return Received(parts.path, query, headers, body, fields)

        def _play(self, behaviour: Behaviour) -> None:
            match behaviour:
                case Reply(code, body, headers):
                    self._send(code, body if isinstance(body, bytes) else json.dumps(body).encode(), headers)
                case Half(code, body):
                    self._send(code, body, {"Content-Length": str(len(body) + 100)})
                    self.close_connection = True
                case Hang():
                    fake.is_closed_within(60.0)
                    self.close_connection = True
                case Drip(pause_seconds, code, body):
                    self.close_connection = True
                    head = f"HTTP/1.1 {code or 200} OK\r\nContent-Length: 60000\r\n\r\n".encode() + body
                    self.wfile.write(head if code else b"")
                    for byte in b" " * 60_000 if code else head + b" " * 60_000:
                        self.wfile.write(bytes([byte]))
                        if fake.is_closed_within(pause_seconds):
                            return
                case Reset():
                    self.close_connection = True
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    os.close(self.connection.detach())  # a plain close would say good-bye first

        def _send(self, code: int, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response_only(code)  # without a Date: most tests play at a time of their own
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
                **headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: a test that fails shows what was received."""

    return Handler
