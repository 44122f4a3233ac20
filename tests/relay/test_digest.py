"""A digest has the worst notices first, uncut, and the number of the others."""

import re
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.relay.notice import NO_LINKS, Links, Notice
from streaming.relay.receivers.chat import PLAIN, Style, digest, dingtalk_message, feishu_message, headline
from streaming.relay.receivers.posting import json_bytes
from tests.relay.notices import NOW_MS, notice, notices


def text_of(given: list[Notice], style: Style = PLAIN, max_bytes: int = 1 << 30) -> str:
    return digest(given, NOW_MS, style, NO_LINKS, str, max_bytes)


def test_firing_comes_before_over_then_the_worst_then_the_newest() -> None:
    notified = [
        notice(1, status="resolved"),
        notice(2, severity="info"),
        notice(3, changed_at_ms=NOW_MS - 9_000),
        notice(4, changed_at_ms=NOW_MS - 1_000),
        notice(5, severity="error"),
    ]
    topics = re.findall(r"topic (\S+) in", text_of(notified))
    assert topics == ["orders-4", "orders-3", "orders-5", "orders-2", "orders-1"]


def test_what_is_on_and_what_is_over_are_told_apart() -> None:
    over = notice(2, status="resolved", summary="Resolved after 59 s: No client consumes it.", advice="Nothing to do.")
    text = text_of([notice(1), over])
    assert text == (
        "FIRING critical starved_queue (since 2026-11-21 10:52:20 UTC, 1 min)\n"
        "Nobody consumes 2 queues of topic orders-1 in group order-service: broker-a:6-7.\n"
        'Fix: Give each process its own ClientId: consumer.setInstanceName("...").\n'
        "\n"
        "RESOLVED starved_queue (at 2026-11-21 10:53:19 UTC, after 59 s)\n"
        "Resolved after 59 s: No client consumes it."
    )
    assert headline([notice(1), over]) == "balancewatch: 1 firing, 1 resolved"


def test_the_frame_of_a_chat_is_in_the_language_of_the_settings() -> None:
    links = Links("http://b", "http://b/runbooks", "zh")
    given = [notice(number) for number in range(60)]
    message = dingtalk_message(given, NOW_MS, links)["markdown"]
    assert message["title"] == "balancewatch: 60 条触发"
    assert "**【触发】critical starved_queue（始于 2026-11-21 10:52:20 UTC，已持续 1 min）**" in message["text"]
    assert "处理：Give each process" in message["text"]  # as the row has it
    assert "[处置手册](http://b/runbooks/starved_queue#duplicate_client_id)" in message["text"]
    assert re.search(r"另有 \d+ 条，查看：balancewatch alerts --current$", message["text"])


def test_a_change_is_notified_as_one() -> None:
    assert "starved_queue, changed" in text_of([notice(is_first=False)])


@pytest.mark.parametrize("build", [dingtalk_message, feishu_message], ids=["dingtalk", "feishu"])
def test_a_message_stays_within_its_limit_and_cuts_on_whole_notices(build: Any, subtests: pytest.Subtests) -> None:
    """For any number of notices and any bytes per letter."""
    for count, word in product([1, 2, 19, 40], ["q", "队", "😀", '"']):
        with subtests.test(word, count=count):
            message = build(notices(count, summary=word * 2_000, advice=word * 900), NOW_MS)
            text = (
                message["markdown"]["text"]
                if "markdown" in message
                else message["card"]["elements"][0]["text"]["content"]
            )
            shown = text.count("FIRING critical")
            assert len(json_bytes(message)) <= 20_000
            assert shown == text.count("Fix: ") == text.count(word * 299 + "…") / 2
            assert shown >= 1
            assert (f"and {count - shown} more" in text) == (shown < count)


@given(st.integers(1, 40), st.integers(300, 20_000))
def test_as_many_as_fit_are_notified(count: int, max_bytes: int) -> None:
    notified = notices(count)
    shown = text_of(notified, max_bytes=max_bytes).count("FIRING")
    assert 1 <= shown <= count
    if shown < count:
        larger = [text_of(notified[:more]) for more in range(shown + 1, count)]
        rest = [f"{text}\n\nand {count - shown - 1 - at} more; see: balancewatch" for at, text in enumerate(larger)]
        assert not any(len(json_bytes(text + " alerts --current")) <= max_bytes for text in rest)
