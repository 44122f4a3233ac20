"""A link: what lies between one client and one server, a port of its own that passes bytes on, or does not."""

import asyncio
import contextlib
import errno
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

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
    `is_black_hole`   connections stay and new ones are accepted; nothing passes, and no end hears that the other left
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
        self._condition = HEALTHY
        self._passes = asyncio.Event()
        self._passes.set()
        self._connections: set[asyncio.Task[None]] = set()
        self._sockets: set[socket.socket] = set()
        self._listen()

    def set_condition(self, condition: Condition) -> None:
        """At once, for the connections that there are too."""
        was, self._condition = self._condition, condition
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
        """Each connection's task closes its sockets, and both ends hear RST."""
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
        """Pass both ways until either end is done; the other one hears of it then, unless nothing passes."""
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
                    await flight.put((loop.time() + self._condition.delay_ms / 1000, received))
            await flight.put((loop.time() + self._condition.delay_ms / 1000, b""))

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
