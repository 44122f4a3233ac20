"""`balancewatch mcp`: serve the tools over stdio, or over HTTP until Ctrl-C."""

import sys
from typing import Annotated

import typer

from conf.settings import SettingsError
from streaming.terminal.command import fail, load
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import warn

HOST, PORT = "127.0.0.1", 8051


def mcp(
    http: Annotated[bool, typer.Option("--http", help="Serve HTTP instead of stdio.")] = False,
    host: Annotated[
        str | None,
        typer.Option(help=f"With --http: address to listen on; any but the loopback requires a token. Default: {HOST}"),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help=f"With --http: port; 0 picks a free one. Default: {PORT}", min=0, max=65535)
    ] = None,
    warehouse: Warehouse = None,
) -> None:
    """Serve read-only tools for AI assistants (MCP): alerts, explain, owner, whatif, groups and sql.

    By default an assistant starts this command and talks to it on stdin and stdout. With --http, access is as on the
    board: set the token in the variable of board.token_env to let others connect, and put a TLS proxy in front.

    Example: balancewatch mcp --warehouse /var/lib/balancewatch/warehouse

    Example: balancewatch mcp --http

    Example: BALANCEWATCH_BOARD_TOKEN=$(openssl rand -hex 24) balancewatch mcp --http --host 0.0.0.0
    """
    if not http and (host is not None or port is not None):
        fail("--host and --port need --http", code=2)
    address = {"host": host or HOST, "port": PORT if port is None else port}
    settings = load(paths={"warehouse": warehouse}, board=address if http else {})
    from streaming.assistant.tools import make_server, serve_http  # noqa: PLC0415  # mcp, which the help does not need

    if not http:
        if sys.stdin.isatty():
            warn("Waiting for an MCP client on stdin; Ctrl-C ends it.")
        make_server(settings).run()
        return
    try:
        serve_http(settings)
    except SettingsError as error:
        fail(str(error), code=2)
    except OSError as error:
        where = f"--host {address['host']}, --port {address['port']}"
        fail(f"{where}: cannot listen: {error.strerror or error}; give another --port, or 0 for a free one")
