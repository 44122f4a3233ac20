"""An S3 server on the loopback, ended by process id, and a proxy before it that refuses, cuts and loses calls."""

import http.client
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from tests.support.freezing import end
from tests.support.rocketmq_server import wait_for

BUCKET = "tables"


@contextmanager
def s3_server(log: Path) -> Iterator[str]:
    """Its address. It has one bucket, `BUCKET`, and forgets all at its end."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        address = wait_for("the S3 server listens", lambda: _address(log, process))
        there = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
        there.request("PUT", f"/{BUCKET}")
        assert there.getresponse().status == http.client.OK
        there.close()
        yield address
    finally:
        end(process, 10)


def environment_of(address: str) -> dict[str, str]:
    """Return the environment of a process that uses the server; the loopback bypasses proxies."""
    return {
        "AWS_ACCESS_KEY_ID": "test-key",
        "AWS_SECRET_ACCESS_KEY": "not-to-be-shown",
        "AWS_ENDPOINT_URL": address,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }


def _address(log: Path, process: "subprocess.Popen[bytes]") -> str | None:
    printed = log.read_text(errors="replace")
    assert process.poll() is None, printed[-2_000:]
    found = printed.partition("Running on ")[2].split()
    return found[0].strip("\x1b[0m") if found else None


REFUSALS = {
    "409": ("ConditionalRequestConflict", "try again"),
    "412": ("PreconditionFailed", "a condition does not hold"),
    "503": ("SlowDown", "reduce your request rate"),
}
"""Answers of a store that has done nothing: status to code and message."""


@contextmanager
def faulty_proxy(address: str, fault_of: Callable[[str, str], str | None]) -> Iterator[str]:
    """The same server under another address. `fault_of(method, path)` decides about each call; None passes it on.

    A status of REFUSALS is answered, and "cut" closes the connection, before the call reaches the server; "lost" closes
    it after the server has done it. "412" only refuses calls with a condition.
    """
    host = address.removeprefix("http://")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = fault_of(self.command, self.path)
            if fault == "412" and not (self.headers.get("If-None-Match") or self.headers.get("If-Match")):
                fault = None
            if fault in REFUSALS:
                body = "<Error><Code>{}</Code><Message>{}</Message></Error>".format(*REFUSALS[fault]).encode()
                self.send_response(int(fault))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body if self.command != "HEAD" else b"")
                return
            if fault == "cut":
                self._hang_up()
                return
            there = http.client.HTTPConnection(host, timeout=30)
            there.request(self.command, self.path, content, dict(self.headers))
            answer = there.getresponse()
            body = answer.read()
            if fault == "lost":
                self._hang_up()
                return
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else len(body)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def _hang_up(self) -> None:
            self.close_connection = True
            self.connection.close()

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass_on  # noqa: N815  # the library's names

        def log_message(self, *_: object) -> None:
            """Nothing is said."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
