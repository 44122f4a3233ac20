"""`/healthz`: 200 if a table can be opened, else 503, for load balancers and orchestrators.

It needs no token and accepts any host name, as such a check has neither; its answer says nothing about the tables.
"""

from collections.abc import Callable

from dash import Dash
from flask import Response

PATH = "/healthz"


def serve_health(app: Dash, can_open: Callable[[], bool]) -> None:
    """Add the route."""

    def health() -> Response:
        if can_open():
            return Response("ok\n", 200, mimetype="text/plain")
        return Response("no table can be opened\n", 503, mimetype="text/plain")

    app.server.add_url_rule(PATH, "health", health)
