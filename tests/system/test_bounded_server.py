"""Slow sockets over real HTTP: each is cut in its time, and none of them keeps anybody else from an answer."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from typing import Any

import pytest
from waitress import wasyncore

from conf.settings import Settings
from streaming.metrics.server import Endpoint, Server
from streaming.system.bounded_server import MOST_PIPELINED, BoundedServer, Bounds

pytestmark = pytest.mark.real

SHORT = Bounds(12, 6, head_seconds=1, request_seconds=2, idle_seconds=2, answer_seconds=1)
HEAD = b"GET / HTTP/1.1\r\nHost: h\r\n"
LARGE = b"x" * 40_000_000
"""More than the sockets' buffers hold."""

released = threading.Event()


def application(environ: Any, start: Any) -> list[bytes]:
    if environ["PATH_INFO"] == "/held":
        released.wait(30)
    body = {"/large": LARGE, "/long": LARGE[:8_000_000]}.get(environ["PATH_INFO"], b"done")
    start("200 OK", [("Content-Length", str(len(body)))])
    return [body]


@contextlib.contextmanager
def serve(bounds: Bounds, threads: int = 8) -> Iterator[int]:
    """The port."""
    released.clear()
    sockets: dict[int, Any] = {}
    listening = socket.create_server(("127.0.0.1", 0))
    port = int(listening.getsockname()[1])
    server = BoundedServer(application, listening, sockets, bounds, threads=threads)
    over = threading.Event()

    def loop() -> None:
        while not over.is_set():
            wasyncore.loop(timeout=0.2, use_poll=True, map=sockets, count=1)
        server.task_dispatcher.shutdown()
        wasyncore.close_all(sockets)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield port
    finally:
        released.set()
        over.set()
        thread.join(10)


@pytest.fixture
def port() -> Iterator[int]:
    with serve(SHORT) as served:
        yield served


@contextlib.contextmanager
def connected(port: int, number: int, sent: bytes = HEAD) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 10)) for _ in range(number)]
        for one in sockets:
            one.sendall(sent)
        yield sockets


def is_closed(one: socket.socket) -> bool:
    """Whether the server has closed it; what it answered is read."""
    one.setblocking(False)
    try:
        while one.recv(65_536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def seconds_until_closed(one: socket.socket, drip: bytes, every: float = 0.1, at_most: float = 15.0) -> float:
    began = time.monotonic()
    while not is_closed(one) and time.monotonic() - began < at_most:
        with contextlib.suppress(OSError):
            one.send(drip)
        time.sleep(every)
    return time.monotonic() - began


def get(port: int, path: str = "/", seconds: float = 10, **headers: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("sent", "drip", "least", "most"),
    [
        (b"", b"", 0.8, 5),
        (HEAD, b"X: y\r\n", 0.8, 5),
        (b"\r\n", b"\r\n", 0.8, 5),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9999\r\n\r\n", b"x", 1.8, 7),
        (HEAD + b"\r\n", b"", 1.8, 7),
        (HEAD + b"\r\n", b"\r\n", 1.8, 8),
    ],
    ids=["nothing", "a head", "empty lines", "a body", "nothing after an answer", "empty lines after an answer"],
)
def test_who_drips_is_cut_in_time(port: int, sent: bytes, drip: bytes, least: float, most: float) -> None:
    with connected(port, 1, sent) as (one,):
        assert least < seconds_until_closed(one, drip) < most


def test_a_second_request_has_a_time_of_its_own(port: int) -> None:
    with connected(port, 1, HEAD + b"\r\n") as (one,):
        time.sleep(1.2)  # idle for longer than a head may take
        one.sendall(HEAD)
        time.sleep(0.3)
        one.sendall(b"\r\n")
        time.sleep(0.3)
        assert one.recv(65_536).count(b"200 OK") == 2
        one.sendall(HEAD)
        assert 0.8 < seconds_until_closed(one, b"X: y\r\n") < 5


def test_an_answer_that_nobody_takes_is_let_go(port: int) -> None:
    with connected(port, 1, b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n") as (one,):
        time.sleep(4)
        taken = 0
        with contextlib.suppress(OSError):
            while part := one.recv(1 << 20):
                taken += len(part)
        assert 0 < taken < len(LARGE)


@pytest.mark.parametrize("requests", [MOST_PIPELINED + 1, 200])
def test_who_asks_much_and_takes_nothing_keeps_no_thread(requests: int) -> None:
    """There are two threads, and each of three peers asks for more than waitress would have a thread hold."""
    ask = b"GET /long HTTP/1.1\r\nHost: h\r\n\r\n" * requests
    with serve(Bounds(12, 6), threads=2) as port, connected(port, 3, ask) as peers:
        time.sleep(0.5)
        assert quickly(lambda: get(port)) == 200
        assert all(map(is_closed, peers)) == (requests > MOST_PIPELINED + 1)


def test_a_few_requests_at_once_are_answered(port: int) -> None:
    with connected(port, 1, (HEAD + b"\r\n") * (MOST_PIPELINED + 1)) as (one,):
        time.sleep(0.5)
        assert one.recv(65_536).count(b"200 OK") == MOST_PIPELINED + 1


def test_room_is_made_for_a_new_one_by_the_one_that_is_waited_for_longest() -> None:
    with serve(Bounds(12, 6)) as port, connected(port, 6) as slow:
        assert get(port) == 200
        time.sleep(0.3)
        assert [is_closed(one) for one in slow] == [True] + [False] * 5


def test_who_is_being_answered_keeps_the_place() -> None:
    with serve(Bounds(12, 6)) as port, connected(port, 6, b"GET /held HTTP/1.1\r\nHost: h\r\n\r\n") as held:
        time.sleep(0.5)
        with pytest.raises(ConnectionError):
            get(port)
        released.set()
        for one in held:
            one.settimeout(10)
            assert b"200 OK" in one.recv(65_536)


def test_a_proxy_may_have_all_the_connections_there_are() -> None:
    with serve(Bounds(12, 6, proxy="127.0.0.1")) as port, connected(port, 12) as slow:
        assert not any(map(is_closed, slow))
        assert get(port) == 200
        time.sleep(0.3)
        assert sum(map(is_closed, slow)) == 1


def quickly(ask: Callable[[], int]) -> int:
    began = time.monotonic()
    status = ask()
    assert time.monotonic() - began < 5
    return status


@pytest.mark.parametrize("filled", ["the metrics", "the checks", "both"])
def test_health_is_reported_beside_80_dripping_sockets(filled: str) -> None:
    settings = Settings.load(metrics={"port": 0}).metrics
    with Server(settings, Endpoint(lambda: b"", list, lambda: ["not yet"])) as server, contextlib.ExitStack() as stack:
        assert server.health_port is not None
        for port in {"the metrics": [server.port], "the checks": [server.health_port]}.get(
            filled, [server.port, server.health_port]
        ):
            stack.enter_context(connected(port, 80, b"GET / H"))
        for port in (server.port, server.health_port):
            assert quickly(lambda port=port: get(port, "/healthz")) == 200
            assert quickly(lambda port=port: get(port, "/readyz")) == 503
        assert get(server.health_port, "/metrics") == 404


def test_an_ending_server_wakes_no_loop_that_has_closed_its_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop may wake by itself, for a connection, between the wish to end and the call that wakes it."""
    settings = Settings.load(metrics={"port": 0}).metrics
    with Server(settings, Endpoint(lambda: b"", list, list)) as server:
        loop = server._metrics
        wake = loop._server.pull_trigger

        def wake_late() -> None:
            with socket.create_connection(("127.0.0.1", server.port)):
                loop.thread.join(0.5)
            wake()

        monkeypatch.setattr(loop._server, "pull_trigger", wake_late)
        loop.close()
        loop.close()
    assert not loop.thread.is_alive()
