"""A NameServer's answers on their way to a client: every server's address in them becomes that of the client's link."""

import re
import struct
from collections.abc import Callable

_ADDRESS = re.compile(rb"\b127\.0\.0\.1:(\d{2,5})\b")
_HEADER_LENGTH = 0xFFFFFF
"""The highest byte beside it says how the header is serialized."""


class RouteRewriter:
    """Remoting frames in, remoting frames out, their bodies rewritten. One per connection.

    `port_of` is asked for each port of the loopback that a body names, and answers with the port that stands there
    instead; the same one for what has no link. GET_ROUTEINFO_BY_TOPIC and GET_BROKER_CLUSTER_INFO carry addresses, and
    so may what a later release adds: no answer is told from another.
    """

    def __init__(self, port_of: Callable[[int], int]) -> None:
        self._port_of = port_of
        self._rest = b""

    def feed(self, received: bytes) -> bytes:
        """Whole frames, rewritten; what is cut off waits for the next call."""
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
