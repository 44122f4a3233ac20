"""Links between every client and every server, so that one client can be cut from one broker alone.

A client's NameServers are links, and what they answer names the client's own links to the brokers: a client of any
release and language goes through them without knowing. Brokers see a connection's address, never a client's: it is
the link's here, and as in the field each connection has another.
"""

import asyncio
import contextlib
import errno
import functools
import re
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from streaming.kafka_io.embedded_kafka import free_port

CHUNK = 1 << 16
IN_FLIGHT = 64
"""Chunks that a delayed direction holds before it reads no more."""
RETRY_SECONDS = 0.1

_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of no time: closing sends RST."""

_ESTABLISHED = 1
"""Linux's TCP_ESTABLISHED."""


@dataclass(frozen=True)
class Condition:
    """How a link behaves.

    `is_cut`          connections are reset, new ones refused
    `is_black_hole`   connections stay and new ones are accepted; nothing passes, and no end notices that the other left
    `delay_ms`        what each direction takes longer
    """

    is_cut: bool = False
    is_black_hole: bool = False
    delay_ms: float = 0.0


HEALTHY = Condition()


class Filter(Protocol):
    """What becomes of bytes on their way from the server."""

    def feed(self, received: bytes, /) -> bytes: ...


class Link:
    """A port of the loopback, `port`, that passes on to a server's.

    Runs in the event loop; every method is called there.
    """

    def __init__(self, server_port: int, make_filter: Callable[[], Filter] | None) -> None:
        self._server_port, self._make_filter = server_port, make_filter
        self._listener = socket.socket()
        self._listener.setblocking(False)
        while True:  # a port that bind itself chose would be given back by `_refuse`
            self.port = free_port()
            with contextlib.suppress(OSError):
                self._listener.bind(("127.0.0.1", self.port))
                break
        self.condition = HEALTHY
        self._passes = asyncio.Event()
        self._passes.set()
        self._connections: set[asyncio.Task[None]] = set()
        self._sockets: set[socket.socket] = set()
        self._listen()

    def set_condition(self, condition: Condition) -> None:
        """At once, for the connections that there are too."""
        was, self.condition = self.condition, condition
        if condition.is_black_hole:
            self._passes.clear()
        else:
            self._passes.set()
        if condition.is_cut and not was.is_cut:
            self._refuse()
            self._reset()
        elif was.is_cut and not condition.is_cut:
            self._listen()

    def close(self) -> None:
        self._accepting.cancel()
        self._reset()
        self._listener.close()

    def _listen(self) -> None:
        self._listener.listen(64)
        self._accepting = asyncio.create_task(self._accept())

    def _refuse(self) -> None:
        """Shut, Linux keeps the port for the socket and refuses connections, until it listens again."""
        self._accepting.cancel()
        self._listener.shutdown(socket.SHUT_RDWR)

    def _reset(self) -> None:
        """Each connection's task closes its sockets, and both ends get RST."""
        for one in self._sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        for task in list(self._connections):
            task.cancel()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                if error.errno not in (errno.ECONNABORTED, errno.EMFILE):
                    return  # it listens no more
                await asyncio.sleep(RETRY_SECONDS)
                continue
            task = asyncio.create_task(self._serve(client))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _serve(self, client: socket.socket) -> None:
        """Pass both ways until either end is done; the other one is closed then, unless nothing passes."""
        loop = asyncio.get_running_loop()
        server = socket.socket()
        for one in (client, server):
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets.add(one)
        try:
            await self._passes.wait()
            if _has_left(client):
                return
            await loop.sock_connect(server, ("127.0.0.1", self._server_port))
            made = self._make_filter() if self._make_filter else None
            ways = [self._pass(client, server, None), self._pass(server, client, made)]
            tasks = [asyncio.create_task(way) for way in ways]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                await self._passes.wait()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        except OSError:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        finally:
            for one in (client, server):
                self._sockets.discard(one)
                one.close()

    async def _pass(self, source: socket.socket, target: socket.socket, made: Filter | None) -> None:
        """One direction, until its source is at its end or either socket fails."""
        loop = asyncio.get_running_loop()
        flight: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(IN_FLIGHT)

        async def read() -> None:
            with contextlib.suppress(OSError):
                while received := await loop.sock_recv(source, CHUNK):
                    await flight.put((loop.time() + self.condition.delay_ms / 1000, received))
            await flight.put((loop.time() + self.condition.delay_ms / 1000, b""))

        reading = asyncio.create_task(read())
        try:
            while True:
                due, received = await flight.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                await self._passes.wait()
                if not received:
                    return
                await loop.sock_sendall(target, made.feed(received) if made else received)
        except OSError:
            return
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)  # before anybody closes its socket


def _has_left(client: socket.socket) -> bool:
    """Whether the other end hung up, whatever it had sent before."""
    return client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _ESTABLISHED


EVERY = "*"
NAME_SERVERS = "name-server-"
PROXY = "proxy"

Answer = TypeVar("Answer")


class Links:
    """A link a client and server, made when it is first asked for; one thread passes the bytes of all.

    Clients are any names. Servers are named as FieldCluster.servers names them; EVERY is all
    of them. Threads may call side by side.
    """

    def __init__(self, servers: Mapping[str, int]) -> None:
        """`servers` are their ports on the loopback."""
        self._servers = dict(servers)
        self._names = {port: name for name, port in servers.items()}
        self._links: dict[tuple[str, str], Link] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="links")
        self._thread.start()

    def name_server_of(self, client: str) -> str:
        """The client's NameServer address: a link to each, parted by ";"."""
        names = [name for name in self._servers if name.startswith(NAME_SERVERS)]
        return self._run(lambda: ";".join(f"127.0.0.1:{self._port(client, name)}" for name in names))

    def proxy_of(self, client: str) -> str:
        """The client's address of the proxy, for gRPC."""
        return self._run(lambda: f"127.0.0.1:{self._port(client, PROXY)}")

    def cut(self, client: str, server: str) -> None:
        """Reset the connections, refuse new ones."""
        self._say(client, server, lambda _: Condition(is_cut=True))

    def blackhole(self, client: str, server: str) -> None:
        """Connections stay and new ones are accepted; nothing passes either way."""
        self._say(client, server, lambda _: Condition(is_black_hole=True))

    def delay(self, client: str, server: str, ms: float) -> None:
        """Each direction takes `ms` longer; 0 ends it."""
        self._say(client, server, lambda was: replace(was, delay_ms=ms))

    def heal(self, client: str, server: str) -> None:
        """All passes as before. What a black hole held passes now."""
        self._say(client, server, lambda _: HEALTHY)

    def close(self) -> None:
        """End every connection and the thread. Safe to call twice."""
        if self._loop.is_closed():
            return

        async def end() -> None:
            for link in self._links.values():
                link.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> "Links":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _say(self, client: str, server: str, change: Callable[[Condition], Condition]) -> None:
        if server != EVERY and server not in self._servers:
            raise ValueError(f"server {server!r} is not one of {', '.join(self._servers)}")

        def say() -> None:
            for each in self._servers if server == EVERY else [server]:
                link = self._link(client, each)
                link.set_condition(change(link.condition))

        self._run(say)

    def _link(self, client: str, server: str) -> Link:
        if (client, server) not in self._links:
            filter_of = functools.partial(self._rewriter, client) if server.startswith(NAME_SERVERS) else None
            self._links[client, server] = Link(self._servers[server], filter_of)
        return self._links[client, server]

    def _port(self, client: str, server: str) -> int:
        return self._link(client, server).port

    def _rewriter(self, client: str) -> Filter:
        return RouteRewriter(lambda port: self._port(client, self._names[port]) if port in self._names else port)

    def _run(self, act: Callable[[], Answer]) -> Answer:
        """`act` in the event loop's thread."""
        done: Future[Answer] = Future()

        def run() -> None:
            try:
                done.set_result(act())
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result()


_ADDRESS = re.compile(rb"\b127\.0\.0\.1:(\d{2,5})\b")
_HEADER_LENGTH = 0xFFFFFF
"""The highest byte beside it says how the header is serialized."""


class RouteRewriter:
    """A filter of a NameServer's remoting frames, in which each server's address becomes that of the client's link.

    One per connection. `port_of` maps each port of the loopback that a body names; it returns the same port if there is
    no link. All answers are rewritten: GET_ROUTEINFO_BY_TOPIC and GET_BROKER_CLUSTER_INFO carry addresses, and a later
    release may have more.
    """

    def __init__(self, port_of: Callable[[int], int]) -> None:
        self._port_of = port_of
        self._rest = b""

    def feed(self, received: bytes) -> bytes:
        """Return the complete frames, rewritten; an incomplete one waits for the next call."""
        self._rest += received
        frames: list[bytes] = []
        while len(self._rest) >= 4:
            (length,) = struct.unpack_from(">i", self._rest)
            if len(self._rest) < 4 + length:
                break
            frame, self._rest = self._rest[4 : 4 + length], self._rest[4 + length :]
            frames.append(self._rewritten(frame))
        return b"".join(frames)

    def _rewritten(self, frame: bytes) -> bytes:
        (header,) = struct.unpack_from(">i", frame)
        start = 4 + (header & _HEADER_LENGTH)
        body = _ADDRESS.sub(self._address, frame[start:])
        return struct.pack(">i", start + len(body)) + frame[:start] + body

    def _address(self, found: re.Match[bytes]) -> bytes:
        return b"127.0.0.1:%d" % self._port_of(int(found[1]))
