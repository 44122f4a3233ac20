"""One POST: the meaning of each kind of answer, without secrets."""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.kafka_io.embedded_kafka import free_port
from streaming.relay.receivers.posting import READ_BYTES, AddressError, HttpReceiver, json_bytes, retry_after_seconds
from tests.relay.fakes import Behaviour, Drip, FakeServer, Half, Hang, Reply, Reset
from tests.relay.notices import NOW_MS


@pytest.fixture
def poster(hook: FakeServer) -> Iterator[HttpReceiver]:
    made = HttpReceiver("ops", hook.url)
    yield made
    made.close()


MEANINGS = {
    "DELIVERED": (200, 202, 204),
    "REFUSED": (301, 307, 400, 404, 413),
    "BAD_KEY": (401, 403),
    "RETRY": (408, 429, 500, 503),
}


@pytest.mark.parametrize(
    ("code", "verdict"), [(code, verdict) for verdict, codes in MEANINGS.items() for code in codes]
)
def test_each_status_has_one_meaning(hook: FakeServer, poster: HttpReceiver, code: int, verdict: str) -> None:
    hook.script(Reply(code, headers={"Location": "/elsewhere"}))
    answer = poster.post(b"{}", NOW_MS)
    assert (answer.verdict, answer.code) == (verdict, code)
    assert len(hook.received) == 1, "nothing is sent twice, and no redirect is followed"
    assert ("redirect, which is not followed; configure its target" in answer.reason) is (300 <= code < 400)


@pytest.mark.parametrize("needs_body", [False, True])
@pytest.mark.parametrize(
    ("behaviour", "verdict", "code"),
    [
        (Half(200), "DELIVERED", 200),
        (Half(500), "RETRY", 500),
        (Drip(code=200), "DELIVERED", 200),
        (Drip(code=404, body=b"no such path"), "REFUSED", 404),
        (Drip(code=503), "RETRY", 503),
    ],
    ids=repr,
)
def test_once_the_head_is_there_the_status_is_the_answer(
    hook: FakeServer, behaviour: Behaviour, verdict: str, code: int, needs_body: bool
) -> None:
    """The body may drip or break off: an accepted notice must not be sent again."""
    hook.script(behaviour)
    began = time.monotonic()
    with closing(HttpReceiver("ops", hook.url, timeout_seconds=1.0)) as poster:
        answer = poster.post(b"{}", NOW_MS, needs_body=needs_body)
        assert (answer.verdict, answer.code) == (verdict, code)
        assert time.monotonic() - began < 10
        assert getattr(behaviour, "body", b"").strip() == answer.body.strip()
        assert poster.post(b"{}", NOW_MS).verdict == "DELIVERED"


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [(Hang(), "no data for 1 s"), (Drip(pause_seconds=0.1), "not finished within 2 s")],
    ids=["silence", "a drip, though each byte comes in time"],
)
def test_a_wait_ends_and_says_after_how_long(hook: FakeServer, behaviour: Behaviour, reason: str) -> None:
    hook.script(behaviour)
    with closing(HttpReceiver("ops", hook.url, timeout_seconds=1.0)) as poster:
        answer = poster.post(b"{}", NOW_MS)
    assert (answer.verdict, answer.code) == ("RETRY", None)
    assert answer.reason.endswith(reason)


def test_nobody_listening_is_tried_again() -> None:
    poster = HttpReceiver("ops", f"http://127.0.0.1:{free_port()}/")
    answer = poster.post(b"{}", NOW_MS)
    poster.close()
    assert answer.verdict == "RETRY"
    assert "connection failed" in answer.reason


def test_a_long_answer_is_read_up_to_a_limit(hook: FakeServer, poster: HttpReceiver) -> None:
    hook.script(Reply(500, b"x" * 3_000_000))
    answer = poster.post(b"{}", NOW_MS)
    assert (answer.verdict, len(answer.body)) == ("RETRY", READ_BYTES)
    assert len(answer.reason) < 400


def test_retry_after_is_read_as_seconds_and_as_a_date(hook: FakeServer, poster: HttpReceiver) -> None:
    hook.script(
        Reply(429, headers={"Retry-After": "17"}),
        Reply(503, headers={"Retry-After": "Sat, 21 Nov 2026 10:54:20 GMT"}),
        Reply(429, headers={"Retry-After": "soon"}),
        Reply(400, headers={"Retry-After": "17"}),
    )
    assert [poster.post(b"{}", NOW_MS).retry_after_seconds for _ in range(4)] == [17.0, 60.0, None, None]


@given(st.text())
def test_no_retry_after_makes_a_wait_longer_than_a_day(value: str) -> None:
    seconds = retry_after_seconds(value, NOW_MS)
    assert seconds is None or 0 <= seconds <= 86_400


def test_no_reason_and_no_log_holds_a_secret(
    hook: FakeServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The answer echoes all it was sent, which is what a careless server does."""
    secrets = ["us3r-name", "pa55-word", "qu3ry/token", "path-t0ken-0123456789", "h3ader-token", "g1ven-key"]
    address = hook.root.replace("//", "//us3r-name:pa55-word@") + "/path-t0ken-0123456789?access_token=qu3ry%2Ftoken"
    poster = HttpReceiver("ops", address, token="h3ader-token", secret="g1ven-key", timeout_seconds=0.5)  # noqa: S106  # of no server
    echo = Reply(500, " ".join([*secrets, "qu3ry%2Ftoken", "x" * 250 + "g1ven-key"]).encode())
    hook.script(Reply(403), echo, Hang(), Reset(), Half())
    with caplog.at_level(logging.DEBUG):
        reasons = [poster.post(b"{}", NOW_MS).reason for _ in range(5)]
    poster.close()
    assert hook.received[0].query == {"access_token": "qu3ry/token"}
    notified = "\n".join([*reasons, caplog.text, *capfd.readouterr()])
    assert "127.0.0.1" in notified
    assert [secret for secret in [*secrets, "qu3ry%2Ftoken", "g1ven"] if secret in notified] == []


@pytest.mark.parametrize("url", ["", "ops", "ftp://host/x", "http://", "//host/path", "https://exa mple:port/"])
def test_an_address_that_cannot_be_used_is_said_at_the_start(url: str) -> None:
    with pytest.raises(AddressError, match=r"address"):
        HttpReceiver("ops", url)


def test_a_wrong_address_is_notified_without_its_secrets() -> None:
    with pytest.raises(AddressError) as notified:
        HttpReceiver("ops", "ftp://user:pa55word@host/hook?token=t0ken")
    assert "pa55word" not in str(notified.value)
    assert "t0ken" not in str(notified.value)
    assert "ftp" in str(notified.value)


@pytest.mark.parametrize("token", ["a\nb", "密码", "a\x00b"])
def test_a_token_that_no_header_can_carry_is_said_at_the_start_and_not_shown(token: str) -> None:
    with pytest.raises(AddressError, match="printable ASCII") as notified:
        HttpReceiver("ops", "http://host/", token=token)
    assert token not in str(notified.value)


def test_a_token_may_end_with_the_line_break_of_its_file(hook: FakeServer) -> None:
    for token in ("t0ken\n", "", None):
        with closing(HttpReceiver("ops", hook.url, token=token)) as poster:
            poster.post(b"{}", NOW_MS)
    assert [one.headers.get("authorization") for one in hook.received] == ["Bearer t0ken", None, None]


def test_connections_are_kept_and_a_closed_poster_can_post_again(hook: FakeServer, poster: HttpReceiver) -> None:
    for _ in range(2):
        assert poster.post(b'{"a": 1}', NOW_MS).verdict == "DELIVERED"
    poster.close()
    poster.close()
    assert poster.post(b'{"a": 1}', NOW_MS).verdict == "DELIVERED"
    assert [one.fields for one in hook.received] == [{"a": 1}] * 3


@given(
    st.recursive(st.none() | st.floats() | st.text() | st.integers(), lambda inner: st.dictionaries(st.text(), inner))
)
def test_whatever_evidence_holds_becomes_json_in_utf8(value: object) -> None:
    json.loads(json_bytes({"evidence": value, "text": "half a pair: \ud83d"}).decode("utf-8"))


def test_what_json_cannot_say_is_replaced() -> None:
    payload = {"share": float("nan"), "addrs": {"a"}, "name": "\ud83d"}
    assert json.loads(json_bytes(payload)) == {"share": None, "addrs": "{'a'}", "name": "?"}
