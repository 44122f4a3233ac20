"""A plain server behind a link: what it was sent, and who hung up."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from tests.rocketmq_server import broker_port


class Echo:
    """A server that answers each connection by `answer`, and counts connections."""

    def __init__(self, answer: Callable[[bytes], bytes] = bytes) -> None:
        self.port = broker_port()
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._open: list[socket.socket] = []
        self.received = b""
        self._closed: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Safe to call twice."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._open:
            one.close()

    @property
    def connections(self) -> int:
        return len(self._open)

    @property
    def closed(self) -> int:
        """Connections that the other end has ended."""
        return len(self._closed)

    def hang_up(self) -> None:
        for one in self._open:
            one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(one)
            threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def _serve(self, one: socket.socket) -> None:
        try:
            while received := one.recv(1 << 16):
                self.received += received
                one.sendall(self._answer(received))
        except OSError:
            pass  # reset, which is an end too
        self._closed.append(one)
