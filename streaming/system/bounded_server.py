"""Waitress with bounds on time and on connections, so that slow sockets keep nobody else from an answer.

A request has so many seconds from its first byte to its last, however it drips in, and an answer so many to be taken:
waitress itself counts from the last byte. When there are too many connections, of one address or at all, the one that
has waited longest for its peer is closed for the new one; one whose request is being answered never is.

No thread waits for a peer to take an answer: what is not taken yet is kept aside, and who sends many requests without
waiting for the answers is closed.
"""

import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

MAINTAIN_SECONDS = 1
"""How often it is looked who is over the time."""

MOST_PIPELINED = 4
"""Requests that a connection may have sent beside the one that is being answered. Browsers and scrapers send none."""


@dataclass(frozen=True)
class Bounds:
    """Connections, and seconds.

    connections       open at a time
    of_an_address     those of one address; `proxy`, an address that many come from, may have all
    head_seconds      from the first byte of a request, or from connecting, until its head is whole
    request_seconds   the same for its body
    idle_seconds      between an answer and the next request
    answer_seconds    until an answer is taken
    """

    connections: int
    of_an_address: int
    proxy: str = ""
    head_seconds: float = 10.0
    request_seconds: float = 30.0
    idle_seconds: float = 60.0
    answer_seconds: float = 120.0


class BoundedChannel(HTTPChannel):  # type: ignore[misc]  # waitress has no types
    """A connection that knows since when its peer is waited for."""

    server: "BoundedServer"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.begun_at: float | None = time.monotonic()
        """Since when a request is coming in: at first, since the connection is there."""
        self.served_at: float | None = None
        """When the newest answer was made."""
        super().__init__(*arguments, **named)

    @property
    def address(self) -> str:
        return str(self.addr[0]) if self.addr else ""

    @property
    def is_waited_for(self) -> bool:
        """Whether the peer is to act: no request of it is being answered."""
        return not self.requests

    def waited_since(self) -> float:
        """Since when it is its peer's turn."""
        known = [at for at in (self.begun_at, self.served_at) if at is not None]
        return max(known)

    def received(self, data: bytes) -> bool:
        """Notes when a request begins. An empty line is none, and gains no time."""
        before = self.request
        taken = bool(super().received(data))
        if self.request is not None and self.request is not before:
            self.begun_at = time.monotonic() if self.served_at is not None else self.begun_at
        elif self.request is None and self.served_at is not None:
            self.begun_at = None
        if len(self.requests) > MOST_PIPELINED + 1:
            self.handle_close()
        return taken

    def service(self) -> None:
        """Answers a request, in a thread of its own."""
        super().service()
        self.served_at = time.monotonic()
        if self.request is None:
            self.begun_at = None

    def close(self) -> None:
        """With what was kept aside for its peer, which may be a file."""
        self.handle_close()

    def is_late(self, now: float, bounds: Bounds) -> bool:
        """Whether the peer has had its time. `now` is monotonic."""
        if not self.is_waited_for:
            return False
        if self.total_outbufs_len:
            return now - (self.served_at or now) > bounds.answer_seconds
        request = self.request
        if self.begun_at is not None:
            is_in_body = request is not None and request.headers_finished
            if now - self.begun_at > (bounds.request_seconds if is_in_body else bounds.head_seconds):
                return True
        longest = bounds.idle_seconds + bounds.request_seconds  # empty lines, one after the other
        idle = bounds.idle_seconds if request is None else longest
        return self.served_at is not None and now - self.served_at > idle


class BoundedServer(TcpWSGIServer):  # type: ignore[misc]  # waitress has no types
    """One listening socket and its connections, all of them in `map`."""

    channel_class = BoundedChannel

    def __init__(
        self, application: Any, listening: socket.socket, sockets: dict[int, Any], bounds: Bounds, **adjustments: Any
    ) -> None:
        """`adjustments` are waitress's own; `listening` listens, and is closed with the server."""
        adjusted = Adjustments(
            sockets=[listening],
            connection_limit=sys.maxsize,  # ours makes room instead of letting new ones wait
            cleanup_interval=MAINTAIN_SECONDS,
            outbuf_high_watermark=sys.maxsize,  # above it a thread would wait for the peer, for as long as that likes
            asyncore_use_poll=True,
            **adjustments,
        )
        dispatcher = ThreadedTaskDispatcher()
        dispatcher.set_thread_count(adjusted.threads)
        self.bounds = bounds
        super().__init__(
            application,
            sockets,
            True,
            listening,
            dispatcher=dispatcher,
            adj=adjusted,
            bind_socket=False,
            sockinfo=(listening.family, listening.type, listening.proto, listening.getsockname()),
        )

    def maintenance(self, _: float) -> None:
        """Closes at once, not when the peer reads again, who is over the time."""
        now = time.monotonic()
        for channel in list(self.active_channels.values()):
            if channel.is_late(now, self.bounds):
                channel.handle_close()

    def handle_accept(self) -> None:
        """Takes one more, and makes room for it."""
        known = set(self.active_channels)
        super().handle_accept()
        for number in set(self.active_channels) - known:
            self._make_room(self.active_channels[number])

    def _make_room(self, newest: BoundedChannel) -> None:
        bounds, channels = self.bounds, list(self.active_channels.values())
        numbers = Counter(channel.address for channel in channels)
        of_newest = newest.address if newest.address != bounds.proxy else None
        if of_newest is not None and numbers[of_newest] > bounds.of_an_address:
            crowd = of_newest
        elif len(channels) > bounds.connections:
            crowd = numbers.most_common(1)[0][0]
        else:
            return
        waited_for = [one for one in channels if one.address == crowd and one.is_waited_for and one is not newest]
        oldest = min(waited_for, key=lambda one: one.waited_since(), default=newest)
        oldest.handle_close()
