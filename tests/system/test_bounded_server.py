"""The bounded server over real HTTP: slow sockets are closed in time, and others are answered meanwhile."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection

import pytest
from starlette.types import Receive, Scope, Send

from streaming.system.bounded_server import LARGEST_HEADER, BoundedServer, Bounds

pytestmark = pytest.mark.real

SHORT = Bounds(12, 6, request_seconds=2, idle_seconds=5, answer_seconds=1)
HEAD = b"GET / HTTP/1.1\r\nHost: h\r\n"
LARGE = b"x" * 40_000_000
"""More than the sockets' buffers hold."""

released = threading.Event()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        for _ in range(2):
            await send({"type": (await receive())["type"] + ".complete"})
        return
    if scope["method"] == "POST":
        while (await receive()).get("more_body"):
            pass
    while scope["path"] == "/held" and not released.is_set():
        await asyncio.sleep(0.05)
    body = LARGE if scope["path"] == "/large" else b"done"
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def serve(bounds: Bounds) -> Iterator[int]:
    """Serve `application`; yield the port."""
    released.clear()
    listening = socket.create_server(("127.0.0.1", 0))
    server = BoundedServer(application, bounds)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        released.set()
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()


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


def seconds_until_closed(one: socket.socket, drip: bytes, every: float = 0.1, at_most: float = 30.0) -> float:
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
        (b"", b"", 1, 20),
        (HEAD, b"X: y\r\n", 1, 20),
        (b"\r\n", b"\r\n", 0, 20),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9999\r\n\r\n", b"x", 1, 20),
        (HEAD + b"\r\n", b"", 3, 20),
        (HEAD + b"\r\n", b"\r\n", 0, 20),
    ],
    ids=["nothing", "a head", "empty lines", "a body", "nothing after an answer", "empty lines after an answer"],
)
def test_a_dripping_connection_is_closed_in_time(
    port: int, sent: bytes, drip: bytes, least: float, most: float
) -> None:
    with connected(port, 1, sent) as (one,):
        assert least < seconds_until_closed(one, drip) < most


def test_a_second_request_has_its_own_time(port: int) -> None:
    with connected(port, 1, HEAD + b"\r\n") as (one,):
        time.sleep(2.4)  # idle for longer than a head may take
        one.sendall(HEAD)
        time.sleep(0.3)
        one.sendall(b"\r\n")
        answered = b""
        while answered.count(b"200 OK") < 2 and (part := one.recv(65_536)):
            answered += part
        assert answered.count(b"200 OK") == 2
        one.sendall(HEAD)
        assert 1 < seconds_until_closed(one, b"X: y\r\n") < 20


def test_a_response_that_is_not_read_is_given_up(port: int) -> None:
    with connected(port, 1, b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n") as (one,):
        time.sleep(4)
        taken = 0
        with contextlib.suppress(OSError):
            while part := one.recv(1 << 20):
                taken += len(part)
        assert 0 < taken < len(LARGE)


def test_slow_readers_of_many_responses_delay_no_other_answer() -> None:
    requests = b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n" * 50
    with serve(Bounds(12, 6)) as port, connected(port, 3, requests):
        time.sleep(0.5)
        assert quickly(lambda: get(port)) == 200


def test_too_large_headers_are_refused(port: int) -> None:
    with connected(port, 1, HEAD + b"X: " + b"x" * 2 * LARGEST_HEADER) as (one,):
        one.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            assert b"400 Bad Request" in one.recv(65_536)


def test_room_is_made_for_a_new_connection_by_the_one_that_waited_longest() -> None:
    with serve(Bounds(12, 6)) as port, connected(port, 6) as slow:
        assert get(port) == 200
        time.sleep(1)
        assert [is_closed(one) for one in slow] == [True] + [False] * 5


def test_a_connection_that_is_being_answered_keeps_its_place() -> None:
    with serve(Bounds(12, 6)) as port, connected(port, 6, b"GET /held HTTP/1.1\r\nHost: h\r\n\r\n") as held:
        time.sleep(2)
        with pytest.raises(ConnectionError):
            get(port)
        released.set()
        for one in held:
            one.settimeout(10)
            assert b"200 OK" in one.recv(65_536)


def test_a_proxy_may_have_all_connections() -> None:
    with serve(Bounds(12, 6, is_proxy="127.0.0.1".__eq__)) as port, connected(port, 12) as slow:
        assert not any(map(is_closed, slow))
        assert get(port) == 200
        time.sleep(1)
        assert sum(map(is_closed, slow)) == 1


def quickly(ask: Callable[[], int]) -> int:
    began = time.monotonic()
    status = ask()
    assert time.monotonic() - began < 9
    return status
