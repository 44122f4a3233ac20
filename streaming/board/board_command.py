"""`balancewatch board`: the pages, served until Ctrl-C."""

import threading
import webbrowser
from typing import Annotated

import typer

from conf.settings import SettingsError
from streaming.board.web.server import BoardServer
from streaming.system.stopping import stop_on_signals
from streaming.terminal.command import fail, load
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import say, warn


def board(
    host: Annotated[
        str | None, typer.Option(help="Address to serve at; others than the loopback need a token [board.host]")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Its port; 0 takes a free one [board.port]", min=0, max=65535)
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open it in this machine's browser.")] = False,
    warehouse: Warehouse = None,
) -> None:
    """Serve the board: what fires, why, and what can be seen; until Ctrl-C or SIGTERM. Prints its URL.

    It reads the Delta tables alone, beside a running `balancewatch run` or without one. To open it to others, set the
    token's variable (board.token_env) and --host; put a proxy with TLS before it.

    Example: balancewatch board

    Example: balancewatch board --port 0 --open --warehouse .demo/warehouse

    Example: BALANCEWATCH_BOARD_TOKEN=$(openssl rand -hex 24) balancewatch board --host 0.0.0.0
    """

    stop = stop_on_signals()

    settings = load(paths={"warehouse": warehouse}, board={"host": host, "port": port})
    try:
        server = BoardServer(settings)
    except SettingsError as error:
        fail(str(error), code=2)
    except OSError as error:
        where = f"board.host = {settings.board.host!r}, board.port = {settings.board.port}"
        fail(f"{where}: cannot be listened at: {error.strerror or error}; give another --port, or 0")
    threading.Thread(target=_close_on, args=(stop, server), daemon=True).start()
    say(f"The board is at {server.url}  (Ctrl-C ends it)", flush=True)
    if settings.board.is_loopback is False:
        warn("Others can reach it. It asks for the token; let a proxy with TLS stand before it.")
    if open_:
        webbrowser.open(server.url)
    server.run()


def _close_on(stop: threading.Event, server: BoardServer) -> None:
    stop.wait()
    server.close()
