"""Acknowledging and silencing from the board: who may, what is written, what is refused, and what pages then show."""

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from conf.settings import Settings, SettingsError
from streaming.board.web.access import AccessControl
from streaming.board.web.app import BoardServer
from streaming.relay.tables import RelayTables
from tests.board.components import Element, by_id, head_of, links_of, read_html, rows_of, text_of, walk
from tests.board.tables import MINUTE, NOW_MS, alert, client_of, write
from udfs.alerts.silence import Silence

TOKEN = "correct-horse-battery-staple"  # noqa: S105  # of these tests
OWN = {"Origin": "http://127.0.0.1:8050"}
HOUR = 60 * MINUTE
ADA = {"author": "ada", "note": "restarting the twin"}
MATCHERS = {"kind": "starved_queue", "cluster": "prod", "consumer_group": "billing"}


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    rows = [alert("open-1"), alert("other-1", consumer_group="pay"), alert("over-1", "RESOLVED")]
    return write(tmp_path / "w", {"alerts": rows})


@pytest.fixture
def client(warehouse: Path) -> TestClient:
    """A writable board, logged in."""
    client = client_of(warehouse, AccessControl(frozenset(), TOKEN, 3600), can_write=True)
    assert client.post("/", data={"token": TOKEN}).status_code == 303
    return client


def post(client: TestClient, action: str, incident_id: str = "open-1", page: str = "incident", **form: str) -> Any:
    return client.post(f"/{page}/{action}?id={incident_id}", data=form, headers=OWN)


def page_at(client: TestClient, path: str) -> Element:
    return by_id(read_html(client.get(path).text), "page")


def acknowledgements(warehouse: Path) -> list[tuple[str, str, str]]:
    rows = RelayTables(warehouse, may_write=False).read_acknowledgements() or []
    return [(row["incident_id"], row["acknowledged_by"], row["note"]) for row in rows]


def silences(warehouse: Path) -> list[Silence]:
    return RelayTables(warehouse, may_write=False).read_silences() or []


def test_an_acknowledgement_is_recorded_once_with_its_author_and_shown_everywhere(
    client: TestClient, warehouse: Path
) -> None:
    """The author is filled in from then on; a second click adds nothing."""
    for _ in range(2):
        answer = post(client, "acknowledge", **ADA)
        assert (answer.status_code, answer.headers["location"]) == (303, "/incident?id=open-1")
    assert acknowledgements(warehouse) == [("open-1", "ada", "restarting the twin")]
    body = page_at(client, "/incident?id=open-1")
    assert "acknowledged by ada" in text_of(head_of(body))
    respond = by_id(body, "respond")
    assert text_of(respond).startswith("Acknowledge or silence ● acknowledged by ada at 11:00:00 : restarting the twin")
    assert by_id(respond, "response-author")["value"] == "ada"
    assert "Acknowledge too" in text_of(respond)
    assert "acknowledged by ada" in text_of(by_id(page_at(client, "/"), "card-open-1"))
    post(client, "acknowledge", author="bob", note="me too")
    assert {author for _, author, _ in acknowledgements(warehouse)} == {"ada", "bob"}


def test_a_silence_is_recorded_once_shown_with_its_end_and_ended(client: TestClient, warehouse: Path) -> None:
    body = page_at(client, "/incident?id=open-1")
    assert {label: by_id(body, f"response-{label}")["value"] for label in MATCHERS} == MATCHERS
    assert by_id(body, "response-topic")["value"] == ""
    for _ in range(2):
        assert post(client, "silence", **ADA, **MATCHERS, **{"for": "4h"}).status_code == 303
    (silence,) = silences(warehouse)
    assert silence.matchers == {label: (value,) for label, value in MATCHERS.items()}
    assert (silence.created_by, silence.comment) == ("ada", "restarting the twin")
    assert silence.ends_at_ms == NOW_MS + 4 * HOUR
    words = "◌ silenced by ada until 15:00:00"
    for path, part in (("/incident?id=open-1", "respond"), ("/", "card-open-1"), ("/group?group=billing", "page")):
        assert words in text_of(by_id(page_at(client, path), part)), path
    assert words not in text_of(by_id(page_at(client, "/"), "card-other-1"))
    (row,) = rows_of(page_at(client, "/silences"), "silences")
    assert "ada restarting the twin 11:00:00 15:00:00 starved_queue billing End" in text_of(row)
    ended = post(client, "end", page="silences", incident_id="", silence_id=silence.silence_id)
    assert (ended.status_code, ended.headers["location"]) == (303, "/silences")
    assert [one.ends_at_ms for one in silences(warehouse)] == [NOW_MS]
    assert words not in text_of(page_at(client, "/"))
    assert "No silence is active or scheduled." in text_of(page_at(client, "/silences"))


@pytest.mark.parametrize(
    ("own", "end_ms"),
    [("90m", NOW_MS + 90 * MINUTE), ("12:30", NOW_MS + 90 * MINUTE), ("2026-11-21T12:30+00:00", NOW_MS + 90 * MINUTE)],
)
def test_an_own_duration_or_time_in_utc_wins_over_the_choice(
    own: str, end_ms: int, client: TestClient, warehouse: Path
) -> None:
    assert post(client, "silence", **ADA, cluster="*", own=own, **{"for": "1h"}).status_code == 303
    assert [silence.ends_at_ms for silence in silences(warehouse)] == [end_ms]


@pytest.mark.parametrize(
    ("action", "form", "sentence"),
    [
        ("acknowledge", {"author": " ", "note": "x"}, "Your name: '': give 1 to 1000 characters."),
        ("acknowledge", {"author": "ada"}, "Note or reason: '': give 1 to 1000 characters."),
        ("silence", {**ADA, "for": "1h"}, "A silence without a label would cover everything"),
        ("silence", {**ADA, "kind": "starved_queu", "for": "1h"}, "kind= 'starved_queu': nearest: starved_queue"),
        ("silence", {**ADA, "cluster": "*", "own": "soon"}, "Own duration or end: 'soon UTC' is not a time"),
        ("silence", {**ADA, "cluster": "*", "own": "900d"}, "900d: must end within the next 366 days."),
        ("silence", {**ADA, "cluster": "*"}, "Duration: '' is not a duration"),
        ("end", {"silence_id": "nope"}, "SILENCE_ID 'nope' does not exist"),
    ],
)
def test_an_invalid_form_changes_nothing_and_is_answered_with_a_sentence(
    action: str, form: dict[str, str], sentence: str, client: TestClient, warehouse: Path
) -> None:
    answer = post(client, action, **form)
    assert answer.status_code == 400
    page = by_id(read_html(answer.text), "page")
    assert sentence in text_of(page)
    assert links_of(page) == ["/incident?id=open-1"]
    assert (acknowledgements(warehouse), silences(warehouse)) == ([], [])


def test_a_resolved_incident_offers_nothing_and_cannot_be_acknowledged(client: TestClient) -> None:
    assert "respond" not in [one.get("id") for one in walk(page_at(client, "/incident?id=over-1"))]
    answer = post(client, "acknowledge", "over-1", **ADA)
    assert "INCIDENT over-1 was resolved at 2026-11-21T10:55:00.000Z" in answer.text


def test_only_pages_of_this_board_may_post(client: TestClient, warehouse: Path) -> None:
    """A form of another site comes without the cookie, and with headers that say so."""
    path = "/incident/acknowledge?id=open-1"
    for headers in (
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {**OWN, "Sec-Fetch-Site": "cross-site"},
        {**OWN, "Sec-Fetch-Site": "same-site"},
    ):
        assert client.post(path, data=ADA, headers=headers).status_code == 403, headers
    assert client.post(path, data={"note": "x" * 70_000}, headers=OWN).status_code == 413
    assert client.post("/incident/forget?id=open-1", headers=OWN).status_code == 404
    program = client_of(warehouse, AccessControl(frozenset(), TOKEN, 3600), can_write=True)
    assert program.post(path, data=ADA).status_code == 401, "no session"
    assert acknowledgements(warehouse) == []
    assert program.post(path, data=ADA, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 303
    assert client.post(path, data=ADA, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303


def test_a_login_on_the_way_leads_back_to_the_incident(warehouse: Path) -> None:
    """The session ended while the form was open: its text is lost, and nothing is written."""
    client = client_of(warehouse, AccessControl(frozenset(), TOKEN, 3600), can_write=True)
    path = "/incident/acknowledge?id=open-1"
    assert client.post(path, data=ADA, headers=OWN).status_code == 401
    answer = client.post(path, data={"token": TOKEN}, headers=OWN)
    assert answer.headers["location"] == path
    assert client.get(path).headers["location"] == "/incident?id=open-1"
    assert acknowledgements(warehouse) == []


def test_a_read_only_board_says_so_shows_commands_and_takes_no_form(warehouse: Path) -> None:
    client = client_of(warehouse, AccessControl(frozenset(), TOKEN, 3600))
    client.post("/", data={"token": TOKEN})
    text = client.get("/incident?id=open-1").text
    assert "This board is read-only." in text
    assert "balancewatch ack open-1" in text
    assert 'method="post"' not in text
    assert post(client, "acknowledge", **ADA).status_code == 403
    assert acknowledgements(warehouse) == []


def test_tables_that_cannot_be_written_are_reported(
    client: TestClient, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("streaming.relay.actions.RelayTables", refuse)
    answer = post(client, "acknowledge", **ADA)
    assert answer.status_code == 503
    assert "The tables cannot be written; the log of `balancewatch board` says why." in answer.text


def test_a_writable_board_without_a_token_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOARD_TOKEN", raising=False)
    settings = Settings.load(
        paths={"warehouse": tmp_path}, board={"port": 0, "write": True, "token_env": "BOARD_TOKEN"}
    )
    with pytest.raises(SettingsError) as error:
        BoardServer(settings)
    assert str(error.value) == (
        "board.write = true lets the board acknowledge and silence, which requires a token: "
        "set the variable of board.token_env = 'BOARD_TOKEN'"
    )
