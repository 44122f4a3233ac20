"""The board's server: the Dash application with limits on threads, connections, request sizes and times."""

import logging
import socket
import threading
from collections.abc import Callable
from typing import Any

from waitress import wasyncore

from conf.settings import Settings
from streaming.board.web.app import Board, make_app
from streaming.board.web.runbook_pages import ROOT
from streaming.board.web.security import AccessControl, guard_app
from streaming.board.web.well_formed import refuse_malformed
from streaming.system.bounded_server import BoundedChannel, BoundedServer, Bounds
from streaming.text.times import wall_ms

CONNECTIONS = 200
OF_AN_ADDRESS = 100
"""A browser opens six; NAT may share an address among many. A trusted proxy may have all."""

LARGEST_BODY = 256 * 1024
LARGEST_HEADER = 32 * 1024
LOOP_SECONDS = 0.5
FORWARDED = frozenset({"x-forwarded-proto", "x-forwarded-host", "x-forwarded-for"})
LARGEST_IN_MEMORY = 2 * 1024 * 1024
"""Larger responses are buffered in a file for slow readers; Plotly's compressed script is smaller."""


class BoardServer:
    """A served board. It listens once constructed; `run` serves until another thread or a signal calls `close`."""

    def __init__(
        self, settings: Settings, clock_ms: Callable[[], int] = wall_ms, access: AccessControl | None = None
    ) -> None:
        """Bind the address. `access` defaults to the settings' access rule.

        Raises SettingsError if others can reach it without a token, OSError if the address cannot be bound.
        """
        runbooks = settings.oncall.runbook_base_url or ROOT
        self.board = Board(settings.board, settings.paths.warehouse, clock_ms, runbooks_url=runbooks)
        app = make_app(self.board, settings.board)
        guard_app(app, access or AccessControl.of(settings.board))
        refuse_malformed(app)
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # a browser requests ten files at once
        self._sockets: dict[int, Any] = {}
        self._closing = threading.Event()
        host = settings.board.host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, settings.board.port), family=family)
        self.port = int(listening.getsockname()[1])
        self.url = f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"
        self._server = BoundedServer(
            app.server,
            listening,
            self._sockets,
            Bounds(CONNECTIONS, OF_AN_ADDRESS, settings.board.trusted_proxy),
            threads=settings.board.threads,
            max_request_body_size=LARGEST_BODY,
            max_request_header_size=LARGEST_HEADER,
            outbuf_overflow=LARGEST_IN_MEMORY,
            ident=None,
            clear_untrusted_proxy_headers=True,
            **_trust(settings.board.trusted_proxy),
        )

    def run(self) -> None:
        """Serve until `close`, then end requests in flight and release the port."""
        while not self._closing.is_set():
            wasyncore.loop(timeout=LOOP_SECONDS, use_poll=True, map=self._sockets, count=1)
        self._server.task_dispatcher.shutdown(cancel_pending=True, timeout=LOOP_SECONDS)
        for channel in list(self._sockets.values()):
            if isinstance(channel, BoundedChannel):
                channel.handle_close()
        wasyncore.close_all(self._sockets)

    def close(self) -> None:
        """Make `run` return after the request in flight, within half a second of it."""
        self._closing.set()


def _trust(proxy: str) -> dict[str, Any]:
    """Return Waitress' proxy options; it accepts trusted headers only with a trusted proxy."""
    return {"trusted_proxy": proxy, "trusted_proxy_count": 1, "trusted_proxy_headers": FORWARDED} if proxy else {}
