"""One thread a receiver: it makes the calls it is given, one after the other, and hands the answers back."""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from streaming.oncall.delivery import Send
from streaming.oncall.receiver import Answer, Receiver

log = structlog.get_logger()


@dataclass(frozen=True)
class Reply:
    """What came of a call, and how long it took, ms."""

    receiver: str
    answer: Answer
    latency_ms: int


class Worker:
    """Calls one receiver. `reply` is called from its thread."""

    def __init__(self, receiver: Receiver, reply: Callable[[Reply], None], now_ms: Callable[[], int]) -> None:
        self._receiver, self._reply, self._now_ms = receiver, reply, now_ms
        self._calls: queue.SimpleQueue[Send | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"relay-{receiver.name}", daemon=True)
        self._thread.start()

    def call(self, send: Send) -> None:
        self._calls.put(send)

    def stop(self) -> None:
        """After the call in flight no other is made, and the receiver is closed."""
        self._calls.put(None)

    def _work(self) -> None:
        while (send := self._calls.get()) is not None:
            began = time.monotonic()
            answer = call(self._receiver, send, self._now_ms())
            self._reply(Reply(send.receiver, answer, round((time.monotonic() - began) * 1000)))
        self._receiver.close()


def call(receiver: Receiver, send: Send, now_ms: int) -> Answer:
    """A receiver that raises, though it must not, has failed this time and costs nobody else anything."""
    to_call: Any = receiver
    try:
        if send.acknowledgement is not None:
            answer: Answer = to_call.acknowledge(send.notices[0], now_ms)
        else:
            answer = receiver.send(send.notices, now_ms)
    except Exception as error:
        log.error("receiver failed", receiver=send.receiver, error=type(error).__name__)
        return Answer("RETRY", None, f"internal error in the receiver: {type(error).__name__}")
    return answer
