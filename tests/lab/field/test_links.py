"""Links on real sockets: what passes, what does not, and what a NameServer's answer names behind one."""

import contextlib
import json
import re
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.lab.field.links import BLACK_HOLE, CUT, EVERY, HEALTHY, Condition, Links, RouteRewriter
from tests.support.rocketmq_server import wait_for

QUIET_SECONDS = 0.4
"""Nothing that does not pass is waited for longer."""


class Echo(socketserver.ThreadingTCPServer):
    """A server that answers by `answer`, and keeps what it received and its connections."""

    daemon_threads = True

    def __init__(self, stack: ExitStack, answer: Callable[[bytes], bytes] = bytes) -> None:
        self.received, self.open, self._answer = b"", list[socket.socket](), answer
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        stack.callback(self.server_close)
        stack.callback(self.shutdown)
        stack.callback(self.hang_up)
        self.port = int(self.server_address[1])

    def finish_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        self.open.append(request)
        with contextlib.suppress(OSError):  # reset, which is an end too
            while received := request.recv(1 << 16):
                self.received += received
                request.sendall(self._answer(received))

    def hang_up(self) -> None:
        for one in self.open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def links_to(stack: ExitStack, **servers: Echo) -> Links:
    links = Links({name.replace("_", "-"): server.port for name, server in servers.items()})
    stack.callback(links.close)
    return links


def connect(stack: ExitStack, address: str) -> socket.socket:
    host, _, port = address.partition(":")
    return stack.enter_context(socket.create_connection((host, int(port)), timeout=10))


def receive(one: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = one.recv(1 << 16)
        if not chunk:
            raise ConnectionError("hung up")
        received += chunk
    return received


def ask(one: socket.socket, text: bytes = b"hello") -> bytes:
    one.sendall(text)
    return receive(one, len(text))


def is_silent(one: socket.socket) -> bool:
    one.settimeout(QUIET_SECONDS)
    try:
        one.recv(1)
    except TimeoutError:
        return True
    finally:
        one.settimeout(10)
    return False


def test_a_cut_resets_and_refuses_and_healing_serves_on_the_same_port(stack: ExitStack) -> None:
    links = links_to(stack, proxy=Echo(stack))
    address = links.proxy_of("c")
    one, other = connect(stack, address), connect(stack, links.proxy_of("d"))
    assert ask(one) == ask(other) == b"hello"
    for _ in range(3):
        links.set_condition("c", "proxy", BLACK_HOLE)
        late = connect(stack, address)
        links.set_condition("c", "proxy", CUT)
        for each in (one, late):
            with pytest.raises(ConnectionError):
                ask(each)
        with pytest.raises(ConnectionRefusedError):
            connect(stack, address)
        assert ask(other) == b"hello"
        links.set_condition("c", "proxy", HEALTHY)
        one = connect(stack, address)
        assert ask(one) == b"hello"


def test_a_black_hole_keeps_connections_and_accepts_new_ones_and_passes_nothing(stack: ExitStack) -> None:
    server = Echo(stack)
    links = links_to(stack, proxy=server)
    address = links.proxy_of("c")
    one = connect(stack, address)
    assert ask(one) == b"hello"
    links.set_condition("c", "proxy", BLACK_HOLE)
    late = connect(stack, address)
    for each in (one, late):
        each.sendall(b"lost?")
        assert is_silent(each)
    assert (server.received, len(server.open)) == (b"hello", 1)
    connect(stack, address).close()
    server.hang_up()
    assert is_silent(one)
    links.set_condition("c", "proxy", HEALTHY)
    assert late.recv(5) == b"lost?"
    assert one.recv(5) == b""
    assert len(server.open) == 2


def test_a_delay_takes_its_time_each_way_and_keeps_the_order(stack: ExitStack) -> None:
    links = links_to(stack, proxy=Echo(stack))
    one = connect(stack, links.proxy_of("c"))
    links.set_condition("c", "proxy", Condition(delay_ms=150))
    begun = time.monotonic()
    assert ask(one, b"abc") + ask(one, b"def") == b"abcdef"
    assert time.monotonic() - begun >= 0.6
    links.set_condition("c", "proxy", HEALTHY)
    assert ask(one) == b"hello"


def test_a_link_may_be_cut_before_its_client_asks_for_it(stack: ExitStack) -> None:
    links = links_to(stack, proxy=Echo(stack))
    links.set_condition("c", "proxy", CUT)
    with pytest.raises(ConnectionRefusedError):
        connect(stack, links.proxy_of("c"))
    assert ask(connect(stack, links.proxy_of("d"))) == b"hello"
    links.set_condition("c", EVERY, HEALTHY)
    assert ask(connect(stack, links.proxy_of("c"))) == b"hello"
    with pytest.raises(ValueError, match="server 'broker-z' is not one of proxy"):
        links.set_condition("c", "broker-z", CUT)


def test_a_route_names_the_links_of_the_client_that_asked(stack: ExitStack) -> None:
    broker, slave = Echo(stack), Echo(stack)
    route = (
        b'{"brokerDatas":[{"brokerAddrs":{0:"127.0.0.1:%d",1:"127.0.0.1:%d"},"brokerName":"broker-a"}],'
        b'"other":"127.0.0.1:99","queueDatas":[{"brokerName":"broker-a","readQueueNums":4}]}'
        % (broker.port, slave.port)
    )
    name_server = Echo(stack, lambda _: frame_of(route))
    links = links_to(stack, name_server_0=name_server, broker_a=broker, broker_a_slave=slave)
    seen = [route_of(stack, links.name_server_of(client)) for client in ("c", "c", "d")]
    assert seen[0] == seen[1]
    assert seen[0][2] == "127.0.0.1:99"
    addresses = {*seen[0][:2], *seen[2][:2]}
    assert len(addresses - {f"127.0.0.1:{server.port}" for server in (broker, slave)}) == 4
    links.set_condition("c", "broker-a", CUT)
    with pytest.raises(ConnectionRefusedError):
        connect(stack, seen[0][0])
    assert ask(connect(stack, seen[0][1]), b"slave") == b"slave"
    assert ask(connect(stack, seen[2][0]), b"mine") == b"mine"
    wait_for("each reached its broker", lambda: (broker.received, slave.received) == (b"mine", b"slave"))


def test_frames_are_rewritten_wherever_they_are_cut() -> None:
    bodies = (b'"127.0.0.1:10911"', b"", b'"127.0.0.1:9876", "10.0.0.1:10911"')
    frames = b"".join(map(frame_of, bodies))
    for size in (1, 3, 50, 1000):
        rewriter = RouteRewriter({10911: 7})
        fed = [rewriter.feed(frames[at : at + size]) for at in range(0, len(frames), size)]
        assert b"".join(fed) == b"".join(map(frame_of, (b'"127.0.0.1:7"', *bodies[1:])))


def frame_of(body: bytes) -> bytes:
    head = json.dumps({"code": 0, "opaque": 1, "flag": 1}).encode()
    return struct.pack(">ii", 4 + len(head) + len(body), len(head)) + head + body


def route_of(stack: ExitStack, address: str) -> list[str]:
    """The addresses that the answer names."""
    one = connect(stack, address)
    one.sendall(frame_of(b""))
    (length,) = struct.unpack(">i", one.recv(4))
    return re.findall(r"127\.0\.0\.1:\d+", receive(one, length).decode())
