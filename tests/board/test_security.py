"""Who comes in, and with which headers the answers leave."""

import re
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from conf.settings import Settings, SettingsError
from streaming.board.web.access import COOKIE, MOST_WRONG, WINDOW_SECONDS, AccessControl
from tests.board.conftest import serve
from tests.board.tables import client_of

TOKEN = "correct-horse-battery-staple"  # noqa: S105  # of these tests


class Clock:
    """Seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.delenv("BALANCEWATCH_BOARD_TOKEN", raising=False)
    return client_of(tmp_path, AccessControl.of(Settings.load().board))


@pytest.fixture
def opened(tmp_path: Path, clock: Clock) -> TestClient:
    return client_of(tmp_path, AccessControl(frozenset(), TOKEN, 3600, clock))


def ask(client: TestClient, **headers: str) -> Any:
    """The request with which a page updates itself."""
    return client.get("/?", headers={"If-None-Match": "older", **headers})


def test_on_the_loopback_no_token_is_asked_and_headers_keep_the_browser_narrow(local: TestClient) -> None:
    """Data are never kept by the browser, scripts are; other sites' requests are refused."""
    answer = local.get("/")
    assert answer.status_code == 200
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src 'self';" in policy, "no inline scripts"
    assert "unsafe-inline" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "Server" not in answer.headers
    assert ask(local).status_code == 200
    assert ask(local).headers["Cache-Control"] == "no-store"
    script = re.search(r'src="(/assets/board.js[^"]+)"', local.get("/").text)
    assert script
    kept = local.get(script[1], headers={"Accept-Encoding": "gzip"})
    assert "immutable" in kept.headers["Cache-Control"]
    assert kept.headers["Content-Encoding"] == "gzip"
    assert ask(local, Origin="http://evil.example").status_code == 403
    assert ask(local, Origin="http://127.0.0.1:8050").status_code == 200


def test_only_names_of_the_loopback_are_answered(local: TestClient) -> None:
    """DNS rebinding: a foreign page that made its own name lead here."""
    for host in ("evil.example:8050", "127.0.0.1.evil.example", "", "localhost.", "[::2]:8050"):
        answer = local.get("/", headers={"Host": host})
        assert answer.status_code in (400, 421), host
        assert "<html" not in answer.text
    for host in ("127.0.0.1:8050", "localhost:1", "LOCALHOST", "[::1]:8050"):
        assert local.get("/", headers={"Host": host}).status_code == 200, host


@pytest.mark.parametrize(
    "path", ["/", "/alerts", "/api/overview", "/assets/board.js", "/favicon.ico", "/runbooks/", "/nothing"]
)
def test_opened_wider_every_route_wants_the_token(opened: TestClient, path: str) -> None:
    assert opened.get(path).status_code == 401
    assert opened.get(path, headers={"Authorization": f"Bearer {TOKEN}"}).status_code in (200, 404, 503)
    assert ask(opened).status_code == 401
    assert ask(opened, Authorization=f"Bearer {TOKEN}").status_code == 200


def test_the_token_in_the_url_becomes_a_cookie_that_is_not_the_token(opened: TestClient) -> None:
    answer = opened.get(f"/alerts?kind=starved_queue&token={TOKEN}")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/alerts?kind=starved_queue"
    cookie = answer.headers["Set-Cookie"]
    assert TOKEN not in cookie
    assert all(word in cookie for word in ("HttpOnly", "SameSite=lax", "Path=/", "Max-Age=3600"))
    assert opened.get("/alerts?kind=starved_queue").status_code == 200
    assert ask(opened).status_code == 200


def test_the_form_posts_the_token(opened: TestClient) -> None:
    assert 'method="post"' in opened.get("/").text
    assert opened.post("/", data={"token": TOKEN}).status_code == 303
    assert opened.get("/").status_code == 200
    assert opened.post("/", data={"token": TOKEN}).status_code == 303, "from a second tab that still shows the form"


def test_the_form_leads_to_the_page_that_was_asked_for(opened: TestClient) -> None:
    """A form without an action posts to the page's own address."""
    link = "/incident?id=starved%7Cone"
    assert "action=" not in opened.get(link).text
    assert opened.post(link, data={"token": "wrong"}).status_code == 401
    answer = opened.post(link, data={"token": TOKEN})
    assert answer.status_code == 303
    assert answer.headers["Location"] == link
    assert opened.get(link).status_code == 200
    assert ask(opened, Origin="http://evil.example").status_code == 403
    assert ask(opened, Origin="http://[").status_code == 403


def test_the_way_on_never_leads_to_another_host(opened: TestClient) -> None:
    answer = opened.get(f"http://127.0.0.1:8050//evil.example/?token={TOKEN}")
    assert answer.headers["Location"] in ("/", "/evil.example/")


def test_a_session_ends_and_a_forged_one_is_none(opened: TestClient, clock: Clock) -> None:
    opened.get(f"/?token={TOKEN}")
    clock.now += 3601
    assert opened.get("/").status_code == 401
    access = AccessControl(frozenset(), TOKEN, 3600, clock)
    ends, _, signature = access.session().partition(".")
    other = AccessControl(frozenset(), "another-token-altogether", 3600, clock)
    assert access.is_session(f"{ends}.{signature}")
    assert not other.is_session(f"{ends}.{signature}")
    for forged in ("", ".", "x", f"{int(ends) + 1}.{signature}", f"{ends}.", f".{signature}", f"²{ends}.{signature}"):
        assert not access.is_session(forged)


def test_wrong_tokens_are_soon_reported_to_wait_and_the_right_one_always_comes_in(
    opened: TestClient, clock: Clock
) -> None:
    """Behind a proxy all may come from one address."""
    for _ in range(MOST_WRONG):
        assert opened.get("/?token=wrong").status_code == 401
    refused = opened.get("/?token=wrong")
    assert refused.status_code == 429
    assert 0 < int(refused.headers["Retry-After"]) <= WINDOW_SECONDS + 1
    assert opened.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert opened.get(f"/?token={TOKEN}").status_code == 303
    assert opened.get("/").status_code == 200
    opened.cookies.delete(COOKIE)
    clock.now += WINDOW_SECONDS + 1
    assert opened.get("/?token=wrong").status_code == 401


OPENING = "opens the board to others, which requires a token: board.token_env = 'BOARD_TOKEN'"


@pytest.mark.parametrize(
    ("board", "sentence"),
    [
        ({"host": "0.0.0.0"}, f"board.host = '0.0.0.0' {OPENING}"),  # noqa: S104  # it must be refused
        ({"allowed_hosts": ["board.example.org"]}, f"board.allowed_hosts = ['board.example.org'] {OPENING}"),
        (
            {"allowed_hosts": ["localhost", "board.example.org"]},
            f"board.allowed_hosts = ['localhost', 'board.example.org'] {OPENING}",
        ),
        ({"trusted_proxy": "127.0.0.1"}, f"board.trusted_proxy = '127.0.0.1' {OPENING}"),
    ],
)
def test_open_to_others_nothing_starts_without_a_token(
    board: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its address, or through a proxy on the loopback."""
    monkeypatch.delenv("BOARD_TOKEN", raising=False)
    with pytest.raises(SettingsError) as error:
        AccessControl.of(Settings.load(board={"token_env": "BOARD_TOKEN", **board}).board)
    assert str(error.value).startswith(sentence)


def test_a_short_or_empty_token_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOARD_TOKEN", "short")
    sentence = "^board.token_env = 'BOARD_TOKEN': the token has fewer than 16 characters"
    with pytest.raises(SettingsError, match=sentence) as error:
        AccessControl.of(Settings.load(board={"host": "10.255.255.1", "token_env": "BOARD_TOKEN"}).board)
    assert "short" not in str(error.value)
    monkeypatch.setenv("BOARD_TOKEN", " ")
    with pytest.raises(SettingsError, match="the variable is empty"):
        AccessControl.of(Settings.load(board={"token_env": "BOARD_TOKEN"}).board)
    monkeypatch.delenv("BOARD_TOKEN")
    own = Settings.load(board={"token_env": "BOARD_TOKEN", "allowed_hosts": ["127.0.0.1"]}).board
    assert AccessControl.of(own).token is None


def test_a_token_that_is_there_is_asked_for_on_the_loopback_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the same machine may stand before it, and nothing else says so."""
    monkeypatch.setenv("BOARD_TOKEN", TOKEN)
    access = AccessControl.of(Settings.load(board={"token_env": "BOARD_TOKEN"}).board)
    assert access.is_token(TOKEN)
    assert access.answers_to("board.example.org")
    board = {"token_env": "BOARD_TOKEN", "allowed_hosts": ["board.example.org", "[::1]"]}
    named = AccessControl.of(Settings.load(board=board).board)
    assert named.is_token(TOKEN)
    assert named.answers_to("localhost:8050")
    assert named.answers_to("board.example.org:443")
    assert not any(map(named.answers_to, ("evil.example", "10.0.0.1")))


def test_a_trusted_proxy_is_an_address_or_a_network() -> None:
    board = Settings.load(board={"trusted_proxy": "127.0.0.1, 10.42.0.0/16,0:0::1"}).board
    assert all(map(board.is_proxy, ("127.0.0.1", "10.42.7.9", "::1")))
    assert not any(map(board.is_proxy, ("127.0.0.2", "10.43.0.1", "::2", "testclient", "")))
    assert not Settings.load().board.is_proxy("127.0.0.1")


FORWARDED = {
    "Host": "127.0.0.1:8050",  # as a proxy writes it that does not keep the browser's
    "Origin": "https://board.example.org",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "board.example.org",
    "X-Forwarded-For": "192.0.2.7",
}


@pytest.mark.parametrize(
    ("trusted", "code", "is_secure"),
    [("127.0.0.1", 303, True), ("10.1.0.0/16,127.0.0.0/8", 303, True), ("192.0.2.1", 403, False), ("", 403, False)],
)
def test_forwarded_headers_count_of_the_trusted_proxy_alone(
    trusted: str, code: int, is_secure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cookie is Secure, and the Origin is compared with the name that the browser requested."""
    monkeypatch.setenv("BOARD_TOKEN", TOKEN)
    board = {"token_env": "BOARD_TOKEN", "allowed_hosts": ["board.example.org"], "trusted_proxy": trusted}
    with serve(tmp_path, **board) as url, closing(HTTPConnection(urlsplit(url).netloc, timeout=30)) as asking:
        form = {**FORWARDED, "Content-Type": "application/x-www-form-urlencoded"}
        asking.request("POST", "/alerts", body=f"token={TOKEN}", headers=form)
        answer = asking.getresponse()
        answer.read()
        assert answer.status == code
        assert ("Secure" in (answer.getheader("Set-Cookie") or "")) is is_secure
        asking.request("GET", f"/?token={TOKEN}", headers={**FORWARDED, "X-Forwarded-Host": "evil.example"})
        answer = asking.getresponse()
        answer.read()
        assert answer.status == (421 if is_secure else 403)
