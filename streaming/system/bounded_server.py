"""uvicorn with limits on connections, header sizes and times, for the board and the metrics.

A request has a time from its first byte to its last, however it drips in, and a response a time to be read. If there
are too many connections, of one address or in total, the one that has waited longest for its peer is closed; one whose
request is being answered never is.
"""

import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

LARGEST_HEADER = 32 * 1024
SHUTDOWN_SECONDS = 1
TICKS_PER_SECOND = 10
"""Of uvicorn's loop."""


@dataclass(frozen=True)
class Bounds:
    """Limits of connections, and of times in seconds."""

    connections: int = 200
    of_an_address: int = 100  # a browser opens six, and NAT may share an address among many
    request_seconds: float = 10.0  # from the first byte of a request, or from connecting, to its end
    idle_seconds: float = 60.0  # between a response and the next request
    answer_seconds: float = 120.0  # until a response is read
    is_proxy: Callable[[str], bool] = lambda _: False  # whether an address may have all connections


class BoundedConnection(H11Protocol):
    """A connection that knows since when its peer is waited for. `bounds` is set by the server's subclass."""

    bounds: Bounds

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request, and make room for this connection."""
        super().connection_made(transport)
        self.waited_since, self.is_in_request = self.loop.time(), True
        self.unread_since: float | None = None
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Begin the time of a request with its first byte."""
        if not self.is_in_request:
            self.waited_since, self.is_in_request = self.loop.time(), True
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self.waited_since, self.is_in_request = self.loop.time(), bool(self.conn.trailing_data[0])
        super().on_response_complete()

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def is_waited_for(self) -> bool:
        """Whether the peer has to act: no request of it is being answered."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def is_late(self) -> bool:
        """Return whether the peer's time is over. Called every second."""
        now = self.loop.time()
        if self.transport.get_write_buffer_size():
            self.unread_since = now if self.unread_since is None else self.unread_since
            return now - self.unread_since > self.bounds.answer_seconds
        self.unread_since = None
        limit = self.bounds.request_seconds if self.is_in_request else self.bounds.idle_seconds
        return self.is_waited_for and now - self.waited_since > limit

    def _make_room(self) -> None:
        connections: list[Any] = list(self.connections)
        numbers = Counter(connection.address for connection in connections)
        if numbers[self.address] > self.bounds.of_an_address and not self.bounds.is_proxy(self.address):
            crowd = self.address
        elif len(connections) > self.bounds.connections:
            crowd = numbers.most_common(1)[0][0]
        else:
            return
        waiting = [
            connection
            for connection in connections
            if connection.address == crowd and connection.is_waited_for and connection is not self
        ]
        oldest = min(waiting, key=lambda connection: connection.waited_since, default=self)
        self.connections.discard(oldest)
        oldest.transport.abort()


class BoundedServer(uvicorn.Server):
    """A server of one application on the sockets given to `run`; signals stay with the program."""

    def __init__(self, app: ASGIApp, bounds: Bounds) -> None:
        connection = type("Connection", (BoundedConnection,), {"bounds": bounds})
        super().__init__(
            uvicorn.Config(
                app,
                http=connection,
                ws="none",
                lifespan="on",
                log_config=None,
                log_level="error",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=round(bounds.idle_seconds),
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
                h11_max_incomplete_event_size=LARGEST_HEADER,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def on_tick(self, counter: int) -> bool:
        """Close the connections whose time is over, every second."""
        if counter % TICKS_PER_SECOND == 0:
            for connection in list(self.server_state.connections):
                if isinstance(connection, BoundedConnection) and connection.is_late():
                    connection.transport.abort()
        return await super().on_tick(counter)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the address; port 0 takes a free one. Raises OSError, TypeError or ValueError."""
    socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)  # create_server leaves its socket open when this raises
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
