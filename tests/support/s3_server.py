"""An S3 server on the loopback, ended by process id, and one before it that loses answers."""

import http.client
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from tests.support.freezing import end

BUCKET = "tables"
START_SECONDS = 120.0


@contextmanager
def s3_server(log: Path) -> Iterator[str]:
    """Its address. It has one bucket, `BUCKET`, and forgets all at its end."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        address = _address(log, process)
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


def _address(log: Path, process: "subprocess.Popen[bytes]") -> str:
    deadline = time.monotonic() + START_SECONDS
    while True:
        said = log.read_text(errors="replace")
        found = said.partition("Running on ")[2].split()
        if found:
            return found[0].strip("\x1b[0m")
        assert process.poll() is None, said[-2_000:]
        assert time.monotonic() < deadline, f"no S3 server after {START_SECONDS} s"
        time.sleep(0.05)


CONFLICT = b"<Error><Code>ConditionalRequestConflict</Code><Message>try again</Message></Error>"


@contextmanager
def losing_answers(
    address: str,
    is_lost: Callable[[str, str], bool] = lambda *_: False,
    is_refused: Callable[[str, str], bool] = lambda *_: False,
) -> Iterator[str]:
    """The same server under another address, where the answer to a call (method, path) that `is_lost` never comes.

    A call that `is_refused` gets a 409 and does not reach the server.
    """
    host = address.removeprefix("http://")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if is_refused(self.command, self.path):
                self.send_response(409)
                self.send_header("Content-Length", str(len(CONFLICT)))
                self.end_headers()
                self.wfile.write(CONFLICT)
                return
            there = http.client.HTTPConnection(host, timeout=30)
            there.request(self.command, self.path, content, dict(self.headers))
            answer = there.getresponse()
            body = answer.read()
            if is_lost(self.command, self.path):
                self.close_connection = True
                self.connection.close()
                return
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else len(body)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

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
