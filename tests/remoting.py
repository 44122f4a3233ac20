"""RocketMQ's wire protocol over a plain socket: a test is as many clients as it opens channels."""

import json
import socket
import struct
from typing import Any, NamedTuple, Self

VERSION_5_3_0 = 473
"""MQVersion's ordinal, what a Java client of that release sends."""

HEART_BEAT, UNREGISTER_CLIENT, GET_CONSUMER_LIST_BY_GROUP = 34, 35, 38
NOTIFY_CONSUMER_IDS_CHANGED, LOCK_BATCH_MQ, UNLOCK_BATCH_MQ, QUERY_ASSIGNMENT = 40, 41, 42, 400


class Answer(NamedTuple):
    """A response: its code (0 for success), extFields and decoded body, None without one."""

    code: int
    ext: dict[str, str]
    body: Any


class Channel:
    """One connection to a broker. What the broker says unasked is kept: `notified` has (code, extFields)."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._opaque = 0
        self.notified: list[tuple[int, dict[str, str]]] = []

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

    def read_notified(self) -> list[tuple[int, dict[str, str]]]:
        """What the broker has said unasked by now; each once.

        A broker writes to a channel in order, and notifies a group before it answers the heartbeat that changed it: its
        answer to a question asked now comes after all of it.
        """
        self.request(GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "nobody"})
        notified, self.notified = self.notified, []
        return notified

    def _read(self) -> tuple[dict[str, Any], Any]:
        (length, head_length) = struct.unpack(">ii", self._receive(8))
        head = json.loads(self._receive(head_length & 0xFFFFFF))
        tail = self._receive(length - 4 - (head_length & 0xFFFFFF))
        if not head["flag"] & 1:
            self.notified.append((head["code"], head.get("extFields") or {}))
        return head, json.loads(tail) if tail else None

    def _receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            chunk = self._socket.recv(size - len(received))
            if not chunk:
                raise ConnectionError("the broker closed the channel")
            received += chunk
        return received


def heartbeat(
    client_id: str, group: str, topics: dict[str, int], *, without_sub: bool = False, fingerprint: int = 0
) -> dict[str, Any]:
    """HeartbeatData of a push consumer; `topics` are its topics and their subVersions. V2 has a fingerprint."""
    subscriptions = [
        {"topic": topic, "subString": "*", "subVersion": version, "expressionType": "TAG", "classFilterMode": False}
        for topic, version in topics.items()
    ]
    return {
        "clientID": client_id,
        "producerDataSet": [],
        "consumerDataSet": [
            {
                "groupName": group,
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                "subscriptionDataSet": subscriptions,
                "unitMode": False,
            }
        ],
        "heartbeatFingerprint": fingerprint,
        "withoutSub": without_sub,
    }
