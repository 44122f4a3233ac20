"""What is no call of the board's page is refused with 400 or 404, where Dash would fail with a traceback."""

from typing import Any

from dash import Dash
from dash.exceptions import DependencyException
from flask import Response, request

UPDATE = "/_dash-update-component"
SUITES = "/_dash-component-suites/"

NUMBERS = frozenset({"tick.n_intervals"})
"""The arguments that are whole numbers; the others are text. Any may be null."""


def refuse_malformed(app: Dash) -> None:
    """Every route of the application."""

    def look() -> Response | None:
        if request.path.startswith(SUITES) and request.path.count("/") < SUITES.count("/") + 1:
            return _refuse(404, "There is no such file.")
        if request.path == UPDATE and request.method == "POST" and not _is_call(app, _body()):
            return _refuse(400, "This is no call of the board's page.")
        return None

    app.server.before_request(look)
    app.server.register_error_handler(DependencyException, lambda _: _refuse(404, "There is no such file."))


def _body() -> Any:
    try:
        return request.get_json(silent=True)
    except RecursionError:  # lists in lists, as many as fit
        return None


def _is_call(app: Dash, body: Any) -> bool:
    """Whether one of the server's own callbacks takes it, with arguments of their types."""
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
    """`id.property` of each; None where that is not what they are."""
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
