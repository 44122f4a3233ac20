"""Feishu gets a card of plain text; its code decides, whatever the HTTP status."""

from contextlib import closing

import pytest

from streaming.relay.receivers.feishu import Feishu, message, signature
from tests.relay.fakes import Reply, Reset
from tests.relay.notices import NOW_MS, notice, notices
from tests.relay.vendors import FakeFeishu

SECRET = "f31shu-secret"  # noqa: S105 # of no bot


def test_many_notices_are_one_signed_card() -> None:
    with FakeFeishu(SECRET, NOW_MS) as vendor, closing(Feishu("ops", vendor.url, secret=SECRET)) as bot:
        assert bot.send(notices(5), NOW_MS).verdict == "DELIVERED"
        (text,) = vendor.messages
    assert text.count("FIRING") == 5


def test_the_signature_is_that_of_the_documented_sum() -> None:
    """Reckoned by another tool: printf '' | openssl dgst -sha256 -hmac $'1599360473\\ndemo' -binary | base64."""
    assert signature("demo", 1_599_360_473_999) == {
        "timestamp": "1599360473",
        "sign": "l1N0gAcBjdwBvGm1xMjOF0XSyaLRpR7tuO5dHfhAYc8=",
    }


def test_the_card_is_red_while_something_is_on_and_green_after() -> None:
    colours = [
        message([notice(status=status)], NOW_MS)["card"]["header"]["template"] for status in ("firing", "resolved")
    ]
    assert colours == ["red", "green"]


def test_nobody_is_woken_by_a_clients_name() -> None:
    """`<at id=all></at>` is a mention in Feishu's markdown and in its text messages, and nothing in plain_text."""
    card = message([notice(summary="client <at id=all></at>")], NOW_MS)["card"]
    assert [element["text"]["tag"] for element in card["elements"]] == ["plain_text"]
    assert card["header"]["title"]["tag"] == "plain_text"


@pytest.mark.parametrize(
    ("reply", "verdict", "seconds"),
    [
        (Reply(200, {"code": 0, "msg": "success"}), "DELIVERED", None),
        (Reply(200, {"StatusCode": 0, "StatusMessage": "success"}), "DELIVERED", None),
        (Reply(200, {"code": 11232, "msg": "frequency limited"}), "RETRY", 60.0),
        (Reply(200, {"code": 9499, "msg": "too many request"}), "RETRY", 60.0),
        (Reply(400, {"code": 9499, "msg": "Bad Request", "data": {}}), "REFUSED", None),
        (Reply(200, {"code": 19021, "msg": "sign match fail"}), "BAD_KEY", None),
        (Reply(200, {"code": 19022, "msg": "Ip Not Allowed"}), "BAD_KEY", None),
        (Reply(200, {"code": 19024, "msg": "Key Words Not Found"}), "BAD_KEY", None),
        (Reply(400, {"code": 19001, "msg": "incoming webhook access token invalid"}), "BAD_KEY", None),
        (Reply(200, {"StatusCode": 19001, "StatusMessage": "?"}), "BAD_KEY", None),
        (Reply(200, {"code": 19002, "msg": "params error"}), "REFUSED", None),
        (Reply(200, {"code": True}), "RETRY", None),
        (Reply(200, b"[0]"), "RETRY", None),
        (Reply(503, b""), "RETRY", None),
        (Reset(), "RETRY", None),
    ],
)
def test_each_code_has_one_meaning(reply: Reply, verdict: str, seconds: float | None) -> None:
    with FakeFeishu() as vendor, closing(Feishu("ops", vendor.url)) as bot:
        vendor.script(reply)
        answer = bot.send([notice()], NOW_MS)
    assert (answer.verdict, answer.retry_after_seconds) == (verdict, seconds)


def test_a_wrong_secret_or_token_is_a_bad_key_and_no_reason_holds_either() -> None:
    with FakeFeishu(SECRET, NOW_MS) as vendor:
        with closing(Feishu("ops", vendor.url, secret="another")) as bot:  # noqa: S106 # of no bot
            answers = [bot.send([notice()], NOW_MS)]
        with closing(Feishu("ops", vendor.root + "/open-apis/bot/v2/hook/an0ther-t0ken-0123", secret=SECRET)) as bot:
            answers.append(bot.send([notice()], NOW_MS))
            vendor.script(Reply(200, {"code": 1, "msg": f"no bot an0ther-t0ken-0123, {SECRET}"}))
            answers.append(bot.send([notice()], NOW_MS))
    assert [answer.verdict for answer in answers] == ["BAD_KEY", "BAD_KEY", "REFUSED"]
    assert not any("t0ken-0123" in answer.reason or SECRET in answer.reason for answer in answers)
