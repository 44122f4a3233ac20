"""Invalid requests are refused in a sentence and leave no traceback in the log; `/healthz` reports the tables."""

import copy
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from conf.settings import Settings
from streaming.board.pages import PAGES
from streaming.board.web.app import Board, make_app
from streaming.board.web.security import AccessControl, guard_app
from streaming.board.web.well_formed import refuse_malformed
from tests.board.tables import NOW_MS, alert, write

LOCAL = {"Host": "127.0.0.1:8050"}
CALL: dict[str, Any] = {
    "output": "..body-data.data...shown.data...alerts.data...beat.data..",
    "outputs": [{"id": one, "property": "data"} for one in ("body-data", "shown", "alerts", "beat")],
    "inputs": [
        {"id": "url", "property": "pathname", "value": "/"},
        {"id": "url", "property": "search", "value": ""},
        {"id": "tick", "property": "n_intervals", "value": 1},
    ],
    "state": [{"id": "shown", "property": "data", "value": None}],
    "changedPropIds": ["url.pathname"],
}
NOTHING = object()


def client_of(warehouse: Path, access: AccessControl) -> FlaskClient:
    settings = Settings.load().board
    app = make_app(Board(settings, warehouse, lambda: NOW_MS), settings)
    guard_app(app, access)
    refuse_malformed(app)
    client: FlaskClient = app.server.test_client()
    return client


@pytest.fixture
def client(tmp_path: Path) -> FlaskClient:
    return client_of(tmp_path, AccessControl(frozenset({"127.0.0.1"})))


def changed(*path: Any, to: Any = NOTHING) -> dict[str, Any]:
    """The call with one thing in it changed, or taken away."""
    call = copy.deepcopy(CALL)
    *above, last = path
    node: Any = call
    for step in above:
        node = node[step]
    if to is NOTHING:
        del node[last]
    else:
        node[last] = to
    return call


MALFORMED = {
    **{f"no {name}": changed(name) for name in ("output", "outputs", "inputs")},
    **{
        f"{name} {value!r}": changed(name, to=value)
        for name in ("output", "outputs", "inputs", "state", "changedPropIds")
        for value in (None, 5, "x", {}, [5], [None], [{}], [[{"id": "url"}]])
    },
    **{
        f"{name} {number} {field} {value!r}": changed(name, number, field, to=value)
        for name, number, field in (
            ("inputs", 0, "id"), ("inputs", 2, "property"), ("state", 0, "id"), ("outputs", 1, "id"),
        )
        for value in (None, 5, "x", {"index": 1}, [])
    },
    **{f"the path {value!r}": changed("inputs", 0, "value", to=value) for value in (5, [], {}, True, "\ud800")},
    **{f"the search {value!r}": changed("inputs", 1, "value", to=value) for value in (5, [], {}, "?id=\udfff")},
    **{f"the tick {value!r}": changed("inputs", 2, "value", to=value) for value in ("1", 1.5, [], True)},
    "the browser's own callback": changed("output", to="applied.data"),
    "a list": [CALL],
    "null": None,
}  # fmt: skip


def ask(client: FlaskClient, body: Any) -> Any:
    return client.post("/_dash-update-component", data=json.dumps(body), headers=LOCAL, content_type="application/json")


def assert_refused(answers: dict[str, Any], codes: set[int], caplog: pytest.LogCaptureFixture) -> None:
    assert {name: answer.status_code for name, answer in answers.items() if answer.status_code not in codes} == {}
    assert [record for record in caplog.records if record.levelno >= logging.WARNING or record.exc_info] == []


def test_the_pages_own_call_is_answered(client: FlaskClient) -> None:
    assert ask(client, CALL).status_code == 200
    assert ask(client, changed("state", 0, "value")).status_code == 200
    assert ask(client, changed("changedPropIds")).status_code == 200


def test_a_malformed_call_is_refused(client: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    assert_refused({name: ask(client, body) for name, body in MALFORMED.items()}, {400}, caplog)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff", b"[" * 100_000, b'{"output": NaN}', b'"' + b"x" * 1_000 + b'"'],
    ids=lambda one: one[:12],
)
def test_what_is_no_json_is_refused(client: FlaskClient, caplog: pytest.LogCaptureFixture, data: bytes) -> None:
    kinds: dict[str, Callable[[], Any]] = {
        kind: lambda kind=kind: client.post("/_dash-update-component", data=data, headers=LOCAL, content_type=kind)  # type: ignore[misc]
        for kind in ("application/json", "text/plain", "")
    }
    assert_refused({kind: call() for kind, call in kinds.items()}, {400}, caplog)


def test_a_file_that_is_not_there_is_a_404(client: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    names = (
        "x",
        "",
        "x/y",
        "dash/x",
        "dash/../../etc/passwd",
        "dash/dash-renderer/build/none.js",
        "os/path.py",
        "%00/%00",
    )
    found = {name: client.get(f"/_dash-component-suites/{name}", headers=LOCAL) for name in names}
    assert_refused(found, {404}, caplog)


def test_an_unknown_path_is_a_404_and_a_page_is_not(client: FlaskClient) -> None:
    unknown = ("/nope", "/metrics", "/api", "/alerts.json", "/alerts/x", "/favicon.ico")
    assert {path: client.get(path, headers=LOCAL).status_code for path in unknown} == dict.fromkeys(unknown, 404)
    answer = client.get("/nope", headers=LOCAL)
    assert (answer.mimetype, answer.text.splitlines()) == (
        "text/plain",
        ["There is no such page; the pages are /, /alerts, /brokers, /group, /groups, /history, /incident, /quality."],
    )
    known = [page.path for page in PAGES] + ["/alerts/", "/alerts?kind=starved_queue", "/runbooks/"]
    assert {path: client.get(path, headers=LOCAL).status_code for path in known} == dict.fromkeys(known, 200)


def test_healthz_is_200_only_with_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check has no token and calls the board by its address, whatever its names are."""
    monkeypatch.setattr("streaming.board.web.tables.LOOK_SECONDS", 0.0)
    warehouse = tmp_path / "later"
    client = client_of(warehouse, AccessControl(frozenset({"board.example.org"}), "a-token-of-some-length", 3600.0))
    answer = client.get("/healthz", headers={"Host": "10.1.2.3:8050"})
    assert (answer.status_code, answer.text) == (503, "no table can be opened\n")
    write(warehouse, {"alerts": [alert("one")]})
    answer = client.get("/healthz", headers={"Host": "10.1.2.3:8050"})
    assert (answer.status_code, answer.text, answer.headers["Cache-Control"]) == (200, "ok\n", "no-store")
    assert client.get("/healthz/x", headers={"Host": "board.example.org"}).status_code == 401
    shutil.rmtree(warehouse)
    assert client.get("/healthz", headers={"Host": "10.1.2.3:8050"}).status_code == 503
