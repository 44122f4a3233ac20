"""RocketMQ's wire protocol over a plain socket."""

import json
import socket
import struct
from typing import Any, NamedTuple, Self

VERSION_5_3_0 = 473
"""MQVersion's ordinal, what a Java client of that release sends."""

GET_CONSUMER_LIST_BY_GROUP, LOCK_BATCH_MQ, UNLOCK_BATCH_MQ = 38, 41, 42


class Answer(NamedTuple):
    """A response: its code (0 for success), extFields and decoded body, None without one."""

    code: int
    ext: dict[str, str]
    body: Any


class Channel:
    """One connection to a broker. Requests of the broker itself are skipped."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._opaque = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def request(self, code: int, ext: dict[str, str] | None = None, body: Any = None) -> Answer:
        """Ask and wait for the answer."""
        self._opaque += 1
        header = {
            "code": code,
            "language": "JAVA",
            "version": VERSION_5_3_0,
            "opaque": self._opaque,
            "flag": 0,
            "extFields": ext or {},
        }
        head = json.dumps(header).encode()
        tail = b"" if body is None else json.dumps(body).encode()
        self._socket.sendall(struct.pack(">ii", 4 + len(head) + len(tail), len(head)) + head + tail)
        while True:
            answer, reported = self._read()
            if answer["flag"] & 1 and answer["opaque"] == self._opaque:
                return Answer(answer["code"], answer.get("extFields") or {}, reported)

    def _read(self) -> tuple[dict[str, Any], Any]:
        (length, head_length) = struct.unpack(">ii", self._receive(8))
        head = json.loads(self._receive(head_length & 0xFFFFFF))
        tail = self._receive(length - 4 - (head_length & 0xFFFFFF))
        return head, json.loads(tail) if tail else None

    def _receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            chunk = self._socket.recv(size - len(received))
            if not chunk:
                raise ConnectionError("the broker closed the channel")
            received += chunk
        return received
