"""`balancewatch board`: serve the pages until Ctrl-C."""

import threading
import webbrowser
from typing import Annotated

import typer

from conf.settings import SettingsError
from streaming.board.web.app import BoardServer
from streaming.system.stopping import stop_on_signals
from streaming.terminal.command import fail, load
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import say, warn


def board(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; any but the loopback requires a token [board.host]")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 picks a free one [board.port]", min=0, max=65535)] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the board in a browser on this machine.")] = False,
    warehouse: Warehouse = None,
) -> None:
    """Serve the web board: firing alerts, groups, brokers and their history. Prints its URL; Ctrl-C ends it.

    The board reads the Delta tables, with or without `balancewatch run`. To let others reach it, set the token in the
    variable of board.token_env, give --host, and put a TLS proxy in front. With board.write = true it also acknowledges
    and silences.

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
        fail(f"{where}: cannot listen: {error.strerror or error}; give another --port, or 0 for a free one")
    threading.Thread(target=_close_on, args=(stop, server), daemon=True).start()
    say(f"The board is at {server.url}  (Ctrl-C ends it)", flush=True)
    if settings.board.is_loopback is False:
        warn("Other machines can reach the board. It requires the token but has no TLS; put a TLS proxy in front.")
    if open_:
        webbrowser.open(server.url)
    server.run()


def _close_on(stop: threading.Event, server: BoardServer) -> None:
    stop.wait()
    server.close()
