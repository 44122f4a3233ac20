"""Paths and methods that the board answers, updates of an unchanged page, and `/healthz`."""

import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from streaming.board.pages import PAGES
from streaming.board.web.access import AccessControl
from tests.board.tables import NOW_MS, alert, client_of, write


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    return client_of(tmp_path / "w")


def test_an_unknown_path_is_a_404_and_pages_are_only_read(client: TestClient) -> None:
    unknown = ("/nope", "/metrics", "/api", "/alerts.json", "/alerts/x", "/favicon.ico", "/api/nope", "/assets/x.js")
    unknown += ("/assets/../page.py", "/assets/%2e%2e/page.py", "/assets/..%2f..%2fcli.py", "/%00")
    assert {path: client.get(path).status_code for path in unknown} == dict.fromkeys(unknown, 404)
    answer = client.get("/nope")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text.splitlines() == [
        "There is no such page; the pages are /, /alerts, /brokers, /deliveries, /group, /groups, /history, /incident, "
        "/quality, /silences."
    ]
    known = [page.path for page in PAGES] + ["/alerts/", "/alerts?kind=starved_queue", "/runbooks/", "/runbooks"]
    assert {path: client.get(path).status_code for path in known} == dict.fromkeys(known, 200)
    writes = ("POST", "PUT", "DELETE", "TRACE", "OPTIONS")
    assert {client.request(method, "/alerts").status_code for method in writes} == {405}


def test_an_unchanged_page_is_a_304_without_a_body(client: TestClient, tmp_path: Path) -> None:
    write(tmp_path / "w", {"alerts": [alert("one")]})
    first = client.get("/alerts")
    again = client.get("/alerts", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.text) == (304, "")
    assert again.headers["X-Now-Ms"] == str(NOW_MS)
    other = client.get("/alerts?state=FIRING", headers={"If-None-Match": first.headers["ETag"]})
    assert other.status_code == 200


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
