"""Notices whose every text is hostile: what leaves for a chat or a pager is seen, and is neither link nor mention."""

import dataclasses
import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

import pytest

from streaming.relay.notice import Links
from streaming.relay.receivers import alertmanager, chat, pagerduty, webhook
from streaming.relay.receivers.posting import json_bytes
from tests.relay.notices import NOW_MS, notice

UNSEEN = "\x1b]0;t\x07\x9b\u202egnp\u2066\u200b\u200d\u2028\ufeff\U000e0041\x7f\r\n# all is well"
LINKS = "[here](javascript:alert(1)) [here][1] ![x](http://evil) [1]: javascript:x [h]\u200b(http://evil) &#91;h](x)"
MENTIONS = "<at id=all></at> <@U1> <!channel> </font>"
EVIL = f"{LINKS} {MENTIONS} {UNSEEN}"

ODD = notice(
    **dict.fromkeys(("cluster", "consumer_group", "topic", "broker_name", "client_id", "cause", "reason"), EVIL),
    summary=EVIL,
    advice=EVIL,
    queues=(EVIL,),
    labels={"cluster": EVIL, "client_id": EVIL},
    evidence={EVIL: [EVIL, {"of": EVIL}]},
)
OVER = dataclasses.replace(ODD, status="resolved")

BOARD = Links("https://board", "https://board/runbooks")

SENT = {
    "dingtalk": json_bytes(chat.dingtalk_message([ODD, OVER], NOW_MS, BOARD)),
    "feishu": json_bytes(chat.feishu_message([ODD, OVER], NOW_MS, BOARD)),
    "webhook": json_bytes(webhook.message(ODD, "hook", BOARD)),
    "alertmanager": json_bytes(alertmanager.alerts([ODD, OVER], NOW_MS, 240_000, None, BOARD)),
    "pagerduty": pagerduty.event(ODD, "key", BOARD),
}


def strings(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, inner in node.items():
            yield name
            yield from strings(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from strings(inner)
    elif isinstance(node, str):
        yield node


@pytest.mark.parametrize("receiver", SENT)
def test_every_text_is_seen(receiver: str) -> None:
    texts = list(strings(json.loads(SENT[receiver])))
    assert sum("gnp" in text for text in texts) >= 1
    kinds = {unicodedata.category(one) for text in texts for one in text.replace("\n", "")}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize("receiver", ["webhook", "alertmanager"])
def test_a_label_is_one_line(receiver: str) -> None:
    notified = json.loads(SENT[receiver])
    for one in notified["alerts"] if receiver == "webhook" else notified:
        assert not any("\n" in text for text in strings([one["labels"], one["annotations"]]))


def test_markdown_has_no_link_no_picture_and_no_mention_of_a_name() -> None:
    text = json.loads(SENT["dingtalk"])["markdown"]["text"]
    link = f"[Incident](https://board/incident?id={ODD.incident_id})"
    assert text.count(link) == 2
    runbook = "[Runbook](https://board/runbooks/starved_queue)"
    assert text.count(runbook) == 1
    assert not set(text.replace(link, "").replace(runbook, "")) & set("[]<")
    assert not re.search(r"&(?!amp;|lt;|#91;|#93;)", text)
    begins = ("### balancewatch", "**", "Fix: ", "[Runbook]", "[Incident]", "&#91;here")
    assert all(line.startswith(begins) for line in text.split("\n") if line)


def test_a_card_is_plain_text() -> None:
    card = json.loads(SENT["feishu"])["card"]
    assert [one["text"]["tag"] for one in card["elements"]] == ["plain_text"]
