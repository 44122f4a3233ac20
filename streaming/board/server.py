"""The board's server: waitress with bounded threads, connections and requests, around the Dash application."""

import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.server import create_server

from conf.settings import Settings
from streaming.board.app import Board, make_app
from streaming.board.security import Door, guard_app

CONNECTIONS = 200
LARGEST_BODY = 256 * 1024
LARGEST_HEADER = 32 * 1024
IDLE_SECONDS = 60
LOOP_SECONDS = 0.5
FORWARDED = frozenset({"x-forwarded-proto", "x-forwarded-host", "x-forwarded-for"})
LARGEST_IN_MEMORY = 2 * 1024 * 1024
"""An answer above this waits in a file for who reads it slowly; Plotly's script, packed, is below."""


def now_ms() -> int:
    """Epoch ms."""
    return time.time_ns() // 1_000_000


class BoardServer:
    """One served board. It listens from its making on; `run` answers until `close`, from another thread or a signal."""

    def __init__(self, settings: Settings, clock_ms: Callable[[], int] = now_ms, door: Door | None = None) -> None:
        """`door` is the settings' own unless another is given.

        Raises SettingsError when it is open to others without a token, OSError when the address cannot be had.
        """
        self.board = Board(settings.board, settings.paths.warehouse, clock_ms)
        app = make_app(self.board, settings.board)
        guard_app(app, door or Door.of(settings.board))
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # a browser asks for ten files at a time
        self._sockets: dict[int, Any] = {}
        self._closing = threading.Event()
        host = settings.board.host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, settings.board.port), family=family)
        self.port = int(listening.getsockname()[1])
        self.url = f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"
        self._server = create_server(
            app.server,
            map=self._sockets,
            sockets=[listening],
            threads=settings.board.threads,
            connection_limit=CONNECTIONS,
            channel_timeout=IDLE_SECONDS,
            max_request_body_size=LARGEST_BODY,
            max_request_header_size=LARGEST_HEADER,
            outbuf_overflow=LARGEST_IN_MEMORY,
            ident=None,
            asyncore_use_poll=True,
            clear_untrusted_proxy_headers=True,
            **_trust(settings.board.trusted_proxy),
        )

    def run(self) -> None:
        """Answer until `close`; then end what is in flight, and let go of the port."""
        while not self._closing.is_set():
            wasyncore.loop(timeout=LOOP_SECONDS, use_poll=True, map=self._sockets, count=1)
        self._server.task_dispatcher.shutdown(cancel_pending=True, timeout=LOOP_SECONDS)
        for channel in list(self._sockets.values()):
            if isinstance(channel, HTTPChannel):
                channel.handle_close()
        wasyncore.close_all(self._sockets)

    def close(self) -> None:
        """Ask `run` to return; it does within half a second and the request in flight."""
        self._closing.set()


def _trust(proxy: str) -> dict[str, Any]:
    """Waitress takes no headers to trust where it has nobody to trust."""
    return {"trusted_proxy": proxy, "trusted_proxy_count": 1, "trusted_proxy_headers": FORWARDED} if proxy else {}
