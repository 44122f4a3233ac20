"""Refusal of invalid requests: 400 for malformed calls, which Dash answers with a traceback, 404 for unknown paths."""

from collections.abc import Collection
from typing import Any

from dash import Dash
from dash.exceptions import DependencyException
from flask import Response, request

from streaming.board.pages import PAGES

UPDATE = "/_dash-update-component"
SUITES = "/_dash-component-suites/"

NUMBERS = frozenset({"tick.n_intervals"})
"""The integer arguments; the others are text. Any may be null."""

PATHS = frozenset(page.path for page in PAGES)

ANY_PATH = "/<path:path>"
"""Dash's route for every path that has no other."""


def refuse_malformed(app: Dash, pages: Collection[str] = PATHS) -> None:
    """Check every request of the application; `pages` are the paths of its pages."""

    def look() -> Response | None:
        rule = request.url_rule.rule if request.url_rule else ""
        if rule == ANY_PATH and request.path.rstrip("/") not in pages:
            return _refuse(404, f"There is no such page; the pages are {', '.join(sorted(pages))}.")
        if request.path.startswith(SUITES) and request.path.count("/") < SUITES.count("/") + 1:
            return _refuse(404, "There is no such file.")
        if request.path == UPDATE and request.method == "POST" and not _is_call(app, _body()):
            return _refuse(400, "This is not a valid call of the board's callback.")
        return None

    app.server.before_request(look)
    app.server.register_error_handler(DependencyException, lambda _: _refuse(404, "There is no such file."))


def _body() -> Any:
    try:
        return request.get_json(silent=True)
    except RecursionError:  # deeply nested lists
        return None


def _is_call(app: Dash, body: Any) -> bool:
    """Return whether a server callback accepts the body, including the types of its arguments."""
    if not isinstance(body, dict) or not isinstance(body.get("output"), str):
        return False
    known = app.callback_map.get(body["output"])
    if known is None or "callback" not in known:
        return False
    outputs, changed = _names(body.get("outputs")), body.get("changedPropIds", [])
    return (
        outputs is not None
        and body["output"] in (".." + "...".join(outputs) + "..", "...".join(outputs))
        and _names(body.get("inputs")) == _names(known["inputs"])
        and _names(body.get("state", [])) == _names(known["state"])
        and isinstance(changed, list)
        and all(isinstance(one, str) for one in changed)
        and all(_is_fitting(one) for one in (*body["inputs"], *body.get("state", [])))
    )


def _names(places: Any) -> list[str] | None:
    """Return `id.property` of each place; None for malformed ones."""
    if not isinstance(places, list) or not all(isinstance(one, dict) for one in places):
        return None
    pairs = [(one.get("id"), one.get("property")) for one in places]
    if not all(isinstance(name, str) for pair in pairs for name in pair):
        return None
    return [f"{id_}.{property_}" for id_, property_ in pairs]


def _is_fitting(argument: dict[str, Any]) -> bool:
    value = argument.get("value")
    if f"{argument['id']}.{argument['property']}" in NUMBERS:
        return value is None or type(value) is int
    return value is None or (isinstance(value, str) and _is_utf8(value))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse(code: int, sentence: str) -> Response:
    return Response(sentence + "\n", code, mimetype="text/plain")
