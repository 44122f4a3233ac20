"""Plotly's script, served by the board: compressed once, cached by the browser per version."""

import gzip
import threading
from functools import cache
from pathlib import Path

import plotly
from dash import Dash
from flask import Response, request

PATH = f"/plotly-{plotly.__version__}.js"

_once = threading.Lock()


def serve_plotly(app: Dash) -> None:
    """Add the route. The first request waits half a second for the compression."""

    def plotly_script() -> Response:
        is_packed = "gzip" in request.headers.get("Accept-Encoding", "")
        response = Response(_packed() if is_packed else _script(), mimetype="text/javascript")
        if is_packed:
            response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding"
        response.headers["Cache-Control"] = "private, max-age=31536000, immutable"
        return response

    app.server.add_url_rule(PATH, "plotly_script", plotly_script)


def _script() -> bytes:
    return (Path(str(plotly.__file__)).parent / "package_data" / "plotly.min.js").read_bytes()


def _packed() -> bytes:
    with _once:
        return _pack()


@cache
def _pack() -> bytes:
    return gzip.compress(_script(), compresslevel=6)
