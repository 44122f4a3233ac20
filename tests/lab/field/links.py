"""Links between every client and every server, so that one client can be cut from one broker alone.

A client's NameServers are links, and what they answer names the client's own links to the brokers: a client of any
release and language goes through them without knowing. Brokers see a connection's address, never a client's: it is
the link's here, and as in the field each connection has another.
"""

import asyncio
import contextlib
import functools
import re
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

CHUNK = 1 << 16
IN_FLIGHT = 64
"""Chunks that a delayed direction holds before it reads no more."""

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


HEALTHY, CUT, BLACK_HOLE = Condition(), Condition(is_cut=True), Condition(is_black_hole=True)


class Link:
    """A port of the loopback, `port`, that passes on to a server's once it has a condition.

    Runs in the event loop; every method is called there.
    """

    def __init__(self, server_port: int, make_filter: "Callable[[], Awaitable[RouteRewriter]] | None") -> None:
        self._server_port, self._make_filter = server_port, make_filter
        self._reserved = socket.socket()  # it never listens, and keeps the port while the link is cut
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port = int(self._reserved.getsockname()[1])
        self._listener: asyncio.Server | None = None
        self._delay_seconds = 0.0
        self._passes = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()

    async def set_condition(self, condition: Condition) -> None:
        """At once, for the connections that there are too. What a black hole held passes when it ends."""
        self._delay_seconds = condition.delay_ms / 1000
        if condition.is_black_hole:
            self._passes.clear()
        else:
            self._passes.set()
        if condition.is_cut:
            self._cut()
        elif self._listener is None:
            self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    def close(self) -> None:
        self._cut()
        self._reserved.close()

    def _cut(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self._listener = None
        for writer in list(self._writers):
            _reset(writer)

    async def _serve(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Pass both ways until either end is done; the other one is closed then, unless nothing passes."""
        with self._kept(to_client), contextlib.suppress(asyncio.CancelledError):  # asyncio of 3.11 would log it
            await self._passes.wait()
            try:
                own = to_client.get_extra_info("socket")
                if own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _ESTABLISHED:
                    return  # the client hung up meanwhile, whatever it had sent before
                from_server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
            except OSError:
                _reset(to_client)
                return
            with self._kept(to_server):
                rewriter = await self._make_filter() if self._make_filter else None
                ways = [self._pass(from_client, to_server, None), self._pass(from_server, to_client, rewriter)]
                tasks = [asyncio.create_task(way) for way in ways]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                await self._passes.wait()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    @contextlib.contextmanager
    def _kept(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        """A cut resets the connection meanwhile; it is closed at the end."""
        self._writers.add(writer)
        try:
            yield
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _pass(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, rewriter: "RouteRewriter | None"
    ) -> None:
        """One direction, until its source is at its end or either socket fails."""
        now = asyncio.get_running_loop().time
        flight: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(IN_FLIGHT)

        async def read() -> None:
            with contextlib.suppress(OSError):
                while received := await source.read(CHUNK):
                    await flight.put((now() + self._delay_seconds, received))
            await flight.put((now() + self._delay_seconds, b""))

        reading = asyncio.create_task(read())
        try:
            while True:
                due, received = await flight.get()
                await asyncio.sleep(due - now())
                await self._passes.wait()
                if not received:
                    return
                target.write(rewriter.feed(received) if rewriter else received)
                await target.drain()
        except OSError:
            return
        finally:
            reading.cancel()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close the connection with RST."""
    with contextlib.suppress(OSError):  # it is closed already
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


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
        self._links: dict[tuple[str, str], Link] = {}
        self._making = asyncio.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="links")
        self._thread.start()

    def name_server_of(self, client: str) -> str:
        """The client's NameServer address: a link to each, parted by ";"."""
        return ";".join(self._address(client, name) for name in self._servers if name.startswith(NAME_SERVERS))

    def proxy_of(self, client: str) -> str:
        """The client's address of the proxy, for gRPC."""
        return self._address(client, PROXY)

    def set_condition(self, client: str, server: str, condition: Condition) -> None:
        """Of the links between both from now on."""
        if server != EVERY and server not in self._servers:
            raise ValueError(f"server {server!r} is not one of {', '.join(self._servers)}")
        for name in self._servers if server == EVERY else [server]:
            self._run(self._run(self._link(client, name)).set_condition(condition))

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

        self._run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _address(self, client: str, server: str) -> str:
        return f"127.0.0.1:{self._run(self._link(client, server)).port}"

    async def _link(self, client: str, server: str) -> Link:
        """The link of both; it accepts connections."""
        async with self._making:
            if (client, server) not in self._links:
                is_name_server = server.startswith(NAME_SERVERS)
                link = Link(
                    self._servers[server], functools.partial(self._rewriter, client) if is_name_server else None
                )
                await link.set_condition(HEALTHY)
                self._links[client, server] = link
            return self._links[client, server]

    async def _rewriter(self, client: str) -> "RouteRewriter":
        return RouteRewriter({port: (await self._link(client, name)).port for name, port in self._servers.items()})

    def _run(self, act: Coroutine[Any, Any, Answer]) -> Answer:
        """`act` in the event loop's thread."""
        return asyncio.run_coroutine_threadsafe(act, self._loop).result()


_ADDRESS = re.compile(rb"\b127\.0\.0\.1:(\d{2,5})\b")
_HEADER_LENGTH = 0xFFFFFF
"""The highest byte beside it says how the header is serialized."""


class RouteRewriter:
    """A filter of a NameServer's remoting frames, in which each server's address becomes that of the client's link.

    One per connection. `links` maps a server's port of the loopback to its link's; other ports stay. All answers are
    rewritten: GET_ROUTEINFO_BY_TOPIC and GET_BROKER_CLUSTER_INFO carry addresses, and a later release may have more.
    """

    def __init__(self, links: Mapping[int, int]) -> None:
        self._links = links
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
        port = int(found[1])
        return b"127.0.0.1:%d" % self._links.get(port, port)
