"""DingTalk answers 200 to nearly everything: its errcode decides."""

import time
from contextlib import closing

import pytest

from streaming.relay.receivers.dingtalk import DingTalk, signature
from streaming.relay.receivers.posting import TimeOuts
from tests.relay.fakes import Drip, Half, Reply, Reset
from tests.relay.notices import NOW_MS, notice, notices
from tests.relay.vendors import FakeDingTalk

SECRET = "SEC+/0123456789abcdef"  # noqa: S105 # of no robot


def test_many_notices_are_one_signed_message() -> None:
    with (
        FakeDingTalk(SECRET, NOW_MS, keyword="balancewatch") as vendor,
        closing(DingTalk("ops", vendor.url, secret=SECRET)) as robot,
    ):
        answer = robot.send([*notices(5), notice(6, status="resolved")], NOW_MS)
        assert (answer.verdict, len(vendor.messages)) == ("DELIVERED", 1)
        assert vendor.messages[0].startswith(
            "### balancewatch: 5 firing, 1 resolved\n\n**FIRING critical starved_queue"
        )


def test_the_signature_is_that_of_the_documented_sum() -> None:
    """Reckoned by another tool: printf '%s\\n%s' 1577262236757 this_is_secret |
    openssl dgst -sha256 -hmac this_is_secret -binary | base64
    """
    assert signature("this_is_secret", 1_577_262_236_757) == {
        "timestamp": "1577262236757",
        "sign": "OGxW/51aOkXEdzZxMhSYGyrbc6lbFtSQ83hTJyEhh/Y=",
    }


def test_a_wrong_secret_or_a_wrong_clock_is_a_bad_key() -> None:
    with FakeDingTalk(SECRET) as vendor, closing(DingTalk("ops", vendor.url, secret="another")) as robot:  # noqa: S106 # of no robot
        assert robot.send([notice()], time.time_ns() // 1_000_000).verdict == "BAD_KEY"
    with FakeDingTalk(SECRET, NOW_MS) as vendor, closing(DingTalk("ops", vendor.url, secret=SECRET)) as robot:
        assert robot.send([notice()], NOW_MS - 7_200_000).verdict == "BAD_KEY"


def test_a_robot_without_a_secret_is_not_signed() -> None:
    with FakeDingTalk() as vendor, closing(DingTalk("ops", vendor.url)) as robot:
        assert robot.send([notice()], NOW_MS).verdict == "DELIVERED"
        assert set(vendor.received[0].query) == {"access_token"}


@pytest.mark.parametrize(
    ("reply", "verdict", "seconds"),
    [
        (Reply(200, {"errcode": 0, "errmsg": "ok"}), "DELIVERED", None),
        (Reply(200, {"errcode": 130101, "errmsg": "send too fast, exceed 20 times per minute"}), "RETRY", 600.0),
        (Reply(429, {"errcode": 130101, "errmsg": "limit"}, {"Retry-After": "900"}), "RETRY", 900.0),
        (Reply(200, {"errcode": 310000, "errmsg": "keywords not in content"}), "BAD_KEY", None),
        (Reply(200, {"errcode": 300001, "errmsg": "token is not exist"}), "BAD_KEY", None),
        (Reply(200, {"errcode": 300005, "errmsg": "token is not exist"}), "BAD_KEY", None),
        (Reply(200, {"errcode": -1, "errmsg": "system busy"}), "RETRY", None),
        (Reply(200, {"errcode": 40035, "errmsg": "missing parameter json"}), "REFUSED", None),
        (Reply(200, {"errcode": 999999, "errmsg": "too many messages"}), "RETRY", 60.0),
        (Reply(500, {"errcode": 999999, "errmsg": "?"}), "RETRY", None),
        (Reply(403, {"errcode": 999999, "errmsg": "?"}), "BAD_KEY", None),
        (Reply(500, {"errcode": 0, "errmsg": "ok"}), "RETRY", None),
        (Reply(502, b"<html>bad gateway</html>"), "RETRY", None),
        (Reply(200, b"<html>log in</html>"), "RETRY", None),
        (Reply(200, {}), "RETRY", None),
        (Reply(200, {"errcode": "0", "errmsg": "ok"}), "DELIVERED", None),
        (Reply(200, {"errcode": None}), "RETRY", None),
        (Reset(), "RETRY", None),
    ],
)
def test_each_code_has_one_meaning(reply: Reply, verdict: str, seconds: float | None) -> None:
    with FakeDingTalk() as vendor, closing(DingTalk("ops", vendor.url)) as robot:
        vendor.script(reply)
        answer = robot.send([notice()], NOW_MS)
    assert (answer.verdict, answer.retry_after_seconds) == (verdict, seconds)


def test_no_reason_holds_the_token_or_the_secret() -> None:
    with FakeDingTalk() as vendor, closing(DingTalk("ops", vendor.url, secret=SECRET)) as robot:
        vendor.script(Reply(200, {"errcode": 1, "errmsg": f"d1ng-ta1k-t0ken {SECRET} is wrong"}), Reset())
        reasons = [robot.send([notice()], NOW_MS).reason for _ in range(2)]
    assert "*** *** is wrong" in reasons[0]
    assert not any("t0ken" in reason or SECRET in reason for reason in reasons)


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        (b'{"errcode":0,', "DELIVERED"),
        (b'{"errcode":130101,"errmsg":"send', "RETRY"),
        (b'{"errcode":310000,"errmsg":"sign', "BAD_KEY"),
        (b'{"errcode":0', "RETRY"),
        (b'{"errmsg":"ok"', "RETRY"),
        (b'<p>"errcode":0,', "RETRY"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("rest", ["drips", "never comes"])
def test_of_a_body_that_does_not_come_whole_the_code_decides_where_it_has_come(
    body: bytes, verdict: str, rest: str
) -> None:
    with (
        FakeDingTalk() as vendor,
        closing(DingTalk("ops", vendor.url, time_outs=TimeOuts(read=0.5, total=30.0))) as robot,
    ):
        vendor.script(Drip(code=200, body=body) if rest == "drips" else Half(body=body))
        assert robot.send([notice()], NOW_MS).verdict == verdict
