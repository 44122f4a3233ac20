"""Links on real sockets: what passes, what does not, and what a NameServer's answer names behind one."""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.lab.field.links import EVERY, Links, RouteRewriter
from tests.support.rocketmq_server import broker_port, wait_for


class Echo:
    """A server that answers by `answer`, and keeps what it received and its connections."""

    def __init__(self, answer: Callable[[bytes], bytes] = bytes) -> None:
        self.port = broker_port()
        self.received, self.open = b"", list[socket.socket]()
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self.open:
            one.close()

    def hang_up(self) -> None:
        for one in self.open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self.open.append(self._listener.accept()[0])
                threading.Thread(target=self._serve, args=(self.open[-1],), daemon=True).start()

    def _serve(self, one: socket.socket) -> None:
        with suppress(OSError):  # reset, which is an end too
            while received := one.recv(1 << 16):
                self.received += received
                one.sendall(self._answer(received))


QUIET_SECONDS = 0.4
"""Nothing that does not pass is waited for longer."""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def echo(stack: ExitStack, answer: Callable[[bytes], bytes] = bytes) -> Echo:
    server = Echo(answer)
    stack.callback(server.close)
    return server


def links_to(stack: ExitStack, **servers: Echo) -> Links:
    return stack.enter_context(Links({name.replace("_", "-"): server.port for name, server in servers.items()}))


def connect(stack: ExitStack, address: str) -> socket.socket:
    host, _, port = address.partition(":")
    return stack.enter_context(socket.create_connection((host, int(port)), timeout=10))


def ask(one: socket.socket, text: bytes = b"hello") -> bytes:
    one.sendall(text)
    received = b""
    while len(received) < len(text):
        chunk = one.recv(1 << 16)
        if not chunk:
            raise ConnectionError("hung up")
        received += chunk
    return received


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
    links = links_to(stack, proxy=echo(stack))
    address = links.proxy_of("c")
    one, other = connect(stack, address), connect(stack, links.proxy_of("d"))
    assert ask(one) == ask(other) == b"hello"
    for _ in range(3):
        links.cut("c", "proxy")
        with pytest.raises(ConnectionError):
            ask(one)
        with pytest.raises(ConnectionRefusedError):
            connect(stack, address)
        assert ask(other) == b"hello"
        links.heal("c", "proxy")
        one = connect(stack, address)
        assert ask(one) == b"hello"


def test_a_black_hole_keeps_connections_and_accepts_new_ones_and_passes_nothing(stack: ExitStack) -> None:
    server = echo(stack)
    links = links_to(stack, proxy=server)
    address = links.proxy_of("c")
    one = connect(stack, address)
    assert ask(one) == b"hello"
    links.blackhole("c", "proxy")
    late = connect(stack, address)
    for each in (one, late):
        each.sendall(b"lost?")
        assert is_silent(each)
    assert (server.received, len(server.open)) == (b"hello", 1)
    connect(stack, address).close()
    server.hang_up()
    assert is_silent(one)
    links.heal("c", "proxy")
    assert late.recv(5) == b"lost?"
    assert one.recv(5) == b""
    assert len(server.open) == 2


def test_a_delay_takes_its_time_each_way_and_keeps_the_order(stack: ExitStack) -> None:
    links = links_to(stack, proxy=echo(stack))
    one = connect(stack, links.proxy_of("c"))
    links.delay("c", "proxy", 150)
    begun = time.monotonic()
    assert ask(one, b"abc") + ask(one, b"def") == b"abcdef"
    assert time.monotonic() - begun >= 0.6
    links.heal("c", "proxy")
    assert ask(one) == b"hello"


def test_a_link_may_be_cut_before_its_client_asks_for_it(stack: ExitStack) -> None:
    links = links_to(stack, proxy=echo(stack))
    links.cut("c", "proxy")
    with pytest.raises(ConnectionRefusedError):
        connect(stack, links.proxy_of("c"))
    assert ask(connect(stack, links.proxy_of("d"))) == b"hello"
    links.heal("c", EVERY)
    assert ask(connect(stack, links.proxy_of("c"))) == b"hello"
    with pytest.raises(ValueError, match="server 'broker-z' is not one of proxy"):
        links.cut("c", "broker-z")


def test_a_route_names_the_links_of_the_client_that_asked(stack: ExitStack) -> None:
    broker, slave = echo(stack), echo(stack)
    route = (
        b'{"brokerDatas":[{"brokerAddrs":{0:"127.0.0.1:%d",1:"127.0.0.1:%d"},"brokerName":"broker-a"}],'
        b'"other":"127.0.0.1:99","queueDatas":[{"brokerName":"broker-a","readQueueNums":4}]}'
        % (broker.port, slave.port)
    )
    name_server = echo(stack, lambda _: answer_frame(route))
    links = links_to(stack, name_server_0=name_server, broker_a=broker, broker_a_slave=slave)
    seen = [route_of(stack, links.name_server_of(client)) for client in ("c", "c", "d")]
    assert seen[0] == seen[1]
    ports = [port for ports in (seen[0], seen[2]) for port in ports]
    assert len(set(ports)) == 4
    assert not {broker.port, slave.port} & set(ports)
    links.cut("c", "broker-a")
    with pytest.raises(ConnectionRefusedError):
        connect(stack, f"127.0.0.1:{seen[0][0]}")
    assert ask(connect(stack, f"127.0.0.1:{seen[0][1]}"), b"slave") == b"slave"
    assert ask(connect(stack, f"127.0.0.1:{seen[2][0]}"), b"mine") == b"mine"
    wait_for("each reached its broker", lambda: (broker.received, slave.received) == (b"mine", b"slave"))


def test_frames_are_rewritten_wherever_they_are_cut() -> None:
    frames = (
        answer_frame(b'"127.0.0.1:10911"') + answer_frame(b"") + answer_frame(b'"127.0.0.1:9876", "10.0.0.1:10911"')
    )
    wanted = answer_frame(b'"127.0.0.1:7"') + answer_frame(b"") + answer_frame(b'"127.0.0.1:9876", "10.0.0.1:10911"')
    for size in (1, 3, 50, 1000):
        rewriter = RouteRewriter(lambda port: 7 if port == 10911 else port)
        fed = [rewriter.feed(frames[at : at + size]) for at in range(0, len(frames), size)]
        assert b"".join(fed) == wanted


def answer_frame(body: bytes) -> bytes:
    head = json.dumps({"code": 0, "opaque": 1, "flag": 1}).encode()
    return struct.pack(">ii", 4 + len(head) + len(body), len(head)) + head + body


def route_of(stack: ExitStack, address: str) -> list[int]:
    """The ports that the answer names, those of nobody's link left out."""
    one = connect(stack, address)
    one.sendall(answer_frame(b""))
    (length,) = struct.unpack(">i", one.recv(4))
    received = b""
    while len(received) < length:
        received += one.recv(1 << 16)
    return [int(part.split(b'"')[0]) for part in received.split(b"127.0.0.1:")[1:] if not part.startswith(b'99"')]
