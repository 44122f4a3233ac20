"""The board's server."""

from collections.abc import Callable

from conf.settings import Settings
from streaming.board.web.access import AccessControl
from streaming.board.web.app import Board, make_app
from streaming.board.web.runbooks import ROOT
from streaming.system.bounded_server import BoundedServer, Bounds, listen
from streaming.text.times import wall_ms


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
        app = make_app(self.board, access or AccessControl.of(settings.board))
        host = settings.board.host
        self._listening = listen(host, settings.board.port)
        self.port = int(self._listening.getsockname()[1])
        self.url = f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"
        self._server = BoundedServer(app, Bounds(is_proxy=settings.board.is_proxy))

    def run(self) -> None:
        """Serve until `close`, then end requests in flight and release the port."""
        self._server.run(sockets=[self._listening])

    def close(self) -> None:
        """Make `run` return after the requests in flight, within about a second."""
        self._server.should_exit = True
