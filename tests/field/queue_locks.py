"""Queue locks in a stranger's name: RebalanceLockManager's, taken from those who hold them, by the wire protocol."""

import json
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, Self

VERSION_5_3_0 = 473
"""MQVersion's ordinal, what a Java client of that release sends."""

GET_CONSUMER_LIST_BY_GROUP, LOCK_BATCH_MQ, UNLOCK_BATCH_MQ = 38, 41, 42

STRANGER = "127.0.0.1@a-stranger"
RENEW_SECONDS = 5.0
TRIES = 20


class Channel:
    """One connection to a broker. Requests of the broker itself are skipped."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._opaque = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def request(self, code: int, ext: dict[str, str] | None = None, body: Any = None) -> Any:
        """The decoded body of the answer, None without one."""
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
            length, head_length = struct.unpack(">ii", self._receive(8))
            answer = json.loads(self._receive(head_length & 0xFFFFFF))
            said = self._receive(length - 4 - (head_length & 0xFFFFFF))
            if answer["flag"] & 1 and answer["opaque"] == self._opaque:
                return json.loads(said) if said else None

    def _receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            chunk = self._socket.recv(size - len(received))
            if not chunk:
                raise ConnectionError("the broker closed the channel")
            received += chunk
        return received


def take_locks(
    address: str, broker_name: str, group: str, topic: str, queue_ids: Sequence[int], seconds: float
) -> None:
    """Hold the group's locks of these queues for `seconds`, and give them back. Raises TimeoutError if not granted.

    A broker gives a lock away when its holder unlocks it, or has not renewed it for 60 s. It does not ask who says so.
    """
    queues = [{"topic": topic, "brokerName": broker_name, "queueId": number} for number in queue_ids]

    def body(client_id: str) -> dict[str, Any]:
        return {"consumerGroup": group, "clientId": client_id, "mqSet": queues}

    with Channel(address) as channel:
        for _ in range(TRIES):
            listed = channel.request(GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group}) or {}
            for client_id in listed.get("consumerIdList", ()):
                channel.request(UNLOCK_BATCH_MQ, body=body(client_id))
            if len(channel.request(LOCK_BATCH_MQ, body=body(STRANGER))["lockOKMQSet"]) == len(queues):
                break
        else:
            raise TimeoutError(f"the locks of {topic} on {broker_name} were not granted in {TRIES} tries")
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, RENEW_SECONDS))
            channel.request(LOCK_BATCH_MQ, body=body(STRANGER))
        channel.request(UNLOCK_BATCH_MQ, body=body(STRANGER))
