"""Chat robots answer 200 to nearly everything: the code in the body decides."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from streaming.relay.receivers.chat import DingTalk, Feishu, feishu_message, signature
from tests.relay.fakes import Behaviour, Half, Reply, Reset
from tests.relay.notices import NOW_MS, notice, notices
from tests.relay.vendors import FakeDingTalk, FakeFeishu

SECRET = "SEC+/0123456789abcdef"  # noqa: S105 # of no robot

ROBOTS = {"dingtalk": (FakeDingTalk, DingTalk), "feishu": (FakeFeishu, Feishu)}
TOKENS = {"dingtalk": "d1ng-ta1k-t0ken", "feishu": "f31shu-t0ken-0123456789"}
each_robot = pytest.mark.parametrize("vendor", ROBOTS)

Pair = tuple[FakeDingTalk | FakeFeishu, DingTalk | Feishu]


@contextmanager
def robot_of(vendor: str, theirs: str | None = None, ours: str | None = None) -> Iterator[Pair]:
    """A vendor and a receiver, each with its secret."""
    fake, made = ROBOTS[vendor]
    with fake(theirs, NOW_MS) as other, closing(made("ops", other.url, secret=ours)) as robot:
        yield other, robot


@each_robot
def test_many_notices_are_one_signed_message(vendor: str) -> None:
    with robot_of(vendor, SECRET, SECRET) as (other, robot):
        if isinstance(other, FakeDingTalk):
            other.keyword = "balancewatch: 5 firing, 1 resolved"
        assert robot.send([*notices(5), notice(6, status="resolved")], NOW_MS).verdict == "DELIVERED"
        (text,) = other.messages
    assert (text.count("FIRING"), text.count("RESOLVED")) == (5, 1)


def test_the_signatures_are_those_of_the_documented_sums() -> None:
    """Computed by another tool: printf '%s\\n%s' 1577262236757 this_is_secret |
    openssl dgst -sha256 -hmac this_is_secret -binary | base64
    and: printf '' | openssl dgst -sha256 -hmac $'1599360473\\ndemo' -binary | base64
    """
    assert signature("this_is_secret", "1577262236757\nthis_is_secret", 1_577_262_236_757) == {
        "timestamp": "1577262236757",
        "sign": "OGxW/51aOkXEdzZxMhSYGyrbc6lbFtSQ83hTJyEhh/Y=",
    }
    assert signature("1599360473\ndemo", "", 1_599_360_473) == {
        "timestamp": "1599360473",
        "sign": "l1N0gAcBjdwBvGm1xMjOF0XSyaLRpR7tuO5dHfhAYc8=",
    }


@each_robot
def test_a_wrong_secret_or_a_wrong_clock_is_a_bad_key(vendor: str) -> None:
    with robot_of(vendor, SECRET, "another") as (_, robot):
        assert robot.send([notice()], NOW_MS).verdict == "BAD_KEY"
    with robot_of(vendor, SECRET, SECRET) as (_, robot):
        assert robot.send([notice()], NOW_MS - 7_200_000).verdict == "BAD_KEY"


@each_robot
def test_a_robot_without_a_secret_is_not_signed(vendor: str) -> None:
    with robot_of(vendor) as (other, robot):
        assert robot.send([notice()], NOW_MS).verdict == "DELIVERED"
        (request,) = other.received
    assert not {"sign", "timestamp"} & {*request.query, *request.fields}


def test_the_card_is_red_while_an_alert_fires_and_green_after() -> None:
    colours = [
        feishu_message([notice(status=status)], NOW_MS)["card"]["header"]["template"]
        for status in ("firing", "resolved")
    ]
    assert colours == ["red", "green"]


@pytest.mark.parametrize(
    ("vendor", "reply", "verdict", "seconds"),
    [
        ("dingtalk", Reply(200, {"errcode": 0, "errmsg": "ok"}), "DELIVERED", None),
        ("dingtalk", Reply(200, {"errcode": 130101, "errmsg": "send too fast, exceed 20 times"}), "RETRY", 600.0),
        ("dingtalk", Reply(429, {"errcode": 130101, "errmsg": "limit"}, {"Retry-After": "900"}), "RETRY", 900.0),
        ("dingtalk", Reply(200, {"errcode": 310000, "errmsg": "keywords not in content"}), "BAD_KEY", None),
        ("dingtalk", Reply(200, {"errcode": 300001, "errmsg": "token is not exist"}), "BAD_KEY", None),
        ("dingtalk", Reply(200, {"errcode": 300005, "errmsg": "token is not exist"}), "BAD_KEY", None),
        ("dingtalk", Reply(200, {"errcode": -1, "errmsg": "system busy"}), "RETRY", None),
        ("dingtalk", Reply(200, {"errcode": 40035, "errmsg": "missing parameter json"}), "REFUSED", None),
        ("dingtalk", Reply(200, {"errcode": 999999, "errmsg": "too many messages"}), "RETRY", 60.0),
        ("dingtalk", Reply(500, {"errcode": 999999, "errmsg": "?"}), "RETRY", None),
        ("dingtalk", Reply(403, {"errcode": 999999, "errmsg": "?"}), "BAD_KEY", None),
        ("dingtalk", Reply(500, {"errcode": 0, "errmsg": "ok"}), "RETRY", None),
        ("dingtalk", Reply(502, b"<html>bad gateway</html>"), "RETRY", None),
        ("dingtalk", Reply(200, b"<html>log in</html>"), "RETRY", None),
        ("dingtalk", Reply(200, {}), "RETRY", None),
        ("dingtalk", Half(200, b'{"errcode":0,'), "RETRY", None),
        ("dingtalk", Reply(200, {"errcode": None}), "RETRY", None),
        ("dingtalk", Reset(), "RETRY", None),
        ("feishu", Reply(200, {"code": 0, "msg": "success"}), "DELIVERED", None),
        ("feishu", Reply(200, {"StatusCode": 0, "StatusMessage": "success"}), "DELIVERED", None),
        ("feishu", Reply(200, {"code": 11232, "msg": "frequency limited"}), "RETRY", 60.0),
        ("feishu", Reply(200, {"code": 9499, "msg": "too many request"}), "RETRY", 60.0),
        ("feishu", Reply(400, {"code": 9499, "msg": "Bad Request", "data": {}}), "REFUSED", None),
        ("feishu", Reply(200, {"code": 19021, "msg": "sign match fail"}), "BAD_KEY", None),
        ("feishu", Reply(200, {"code": 19022, "msg": "Ip Not Allowed"}), "BAD_KEY", None),
        ("feishu", Reply(200, {"code": 19024, "msg": "Key Words Not Found"}), "BAD_KEY", None),
        ("feishu", Reply(400, {"code": 19001, "msg": "access token invalid"}), "BAD_KEY", None),
        ("feishu", Reply(200, {"StatusCode": 19001, "StatusMessage": "?"}), "BAD_KEY", None),
        ("feishu", Reply(200, {"code": 19002, "msg": "params error"}), "REFUSED", None),
        ("feishu", Reply(200, {"code": True}), "RETRY", None),
        ("feishu", Reply(200, b"[0]"), "RETRY", None),
        ("feishu", Reply(503, b""), "RETRY", None),
        ("feishu", Reset(), "RETRY", None),
    ],
)
def test_each_code_has_one_meaning(vendor: str, reply: Behaviour, verdict: str, seconds: float | None) -> None:
    with robot_of(vendor) as (other, robot):
        other.script(reply)
        answer = robot.send([notice()], NOW_MS)
    assert (answer.verdict, answer.retry_after_seconds) == (verdict, seconds)


@each_robot
def test_no_reason_has_the_token_or_the_secret(vendor: str) -> None:
    said = f"{TOKENS[vendor]} {SECRET} is wrong"
    with robot_of(vendor, ours=SECRET) as (other, robot):
        other.script(Reply(200, {"errcode": 1, "errmsg": said, "code": 1, "msg": said}), Reset())
        reasons = [robot.send([notice()], NOW_MS).reason for _ in range(2)]
    assert "*** *** is wrong" in reasons[0]
    assert not any(TOKENS[vendor] in reason or SECRET in reason for reason in reasons)
