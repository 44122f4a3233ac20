"""What a log line may hold: no secrets, nothing without bounds, and what is no secret stays readable."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.logs.logs import LONGEST, MASK, MOST, guard

SECRET = "hunter2-0123456789"  # noqa: S105  # the very word that must never be printed


@pytest.mark.parametrize(
    "text",
    [
        f"https://oapi.dingtalk.com/robot/send?access_token={SECRET}&timestamp=1",
        f"https://oapi.dingtalk.com/robot/send?timestamp=1&sign={SECRET}",
        f"https://open.feishu.cn/open-apis/bot/v2/hook/{SECRET}",
        f"http://user:{SECRET}@am:9093/api",
        f"Authorization: Bearer {SECRET}",
        f'org.apache.kafka...PlainLoginModule required username="u" password="{SECRET}";',
        f"{{'password': '{SECRET}'}}",
        f"acl_secret_key={SECRET}",
        f"routing_key: {SECRET}",
        f"http://user:p@{SECRET}@am:9093/api",
        f"https://{SECRET}@am:9093/api",
        f"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={SECRET}",
        f"https://hooks.slack.com/services/T0/B0/{SECRET}",
        f"{{'Authorization': 'Token {SECRET}'}}",
        f"{{'Authorization': b'Token {SECRET}'}}",
        f"[('authorization', 'Token {SECRET}')]",
        f'said "{{\\"Authorization\\": \\"Token {SECRET}\\"}}"',
        f"Authorization: Token {SECRET}",
    ],
)
def test_what_looks_like_a_secret_in_a_text_is_masked(text: str) -> None:
    assert SECRET not in guard(text)
    assert MASK in guard(text)


@pytest.mark.parametrize(
    "key", ["token", "password", "client_secret", "Authorization", "api_key", "sasl.jaas.config", "routing_key"]
)
def test_what_a_key_calls_a_secret_is_masked_however_deep(key: str) -> None:
    assert guard({"outer": [{key: SECRET}]}) == {"outer": [{key: MASK}]}
    assert guard(SECRET, key) == MASK


@pytest.mark.parametrize(
    "text",
    [
        "oncall.receivers[0].token_env = 'PAGER'",
        "queues broker-a:6-7 of topic orders; key cluster|client_id",
        "assignments: 170, memberships=20",
        "rebalanced by AVG@1, see http://am-0:9093/api",
    ],
)
def test_what_is_no_secret_stays_readable(text: str) -> None:
    assert guard(text) == text


def test_the_name_of_a_variable_and_a_number_are_no_secrets() -> None:
    assert guard("PAGER_TOKEN", "token_env") == "PAGER_TOKEN"
    assert guard(3, "tokens") == 3
    assert guard(None, "token") is None


class Address:
    def __str__(self) -> str:
        return f"http://user:{SECRET}@host"


@pytest.mark.parametrize("value", [Address(), ValueError(f"password={SECRET}"), f"password={SECRET}".encode()])
def test_what_becomes_text_is_masked_as_text(value: Any) -> None:
    said = guard({"error": [value]})["error"][0]
    assert SECRET not in said
    assert MASK in said


def test_what_is_long_is_cut_and_says_so() -> None:
    cut = guard({"text": "x" * (LONGEST + 5), "list": list(range(MOST + 3))})
    assert cut["text"] == "x" * LONGEST + f"... ({LONGEST + 5:,} characters)"
    assert cut["list"] == [*range(MOST), "... 3 more"]
    assert len(guard({str(number): 1 for number in range(500)})) == MOST + 1


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(max_size=20),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(anything)
def test_whatever_is_logged_is_json_afterwards(value: Any) -> None:
    json.dumps(guard(value))


def test_a_list_that_holds_itself_is_cut() -> None:
    endless: list[Any] = []
    endless.append(endless)
    json.dumps(guard(endless))
