"""Group robots of DingTalk and Feishu (Lark): a signature, a digest of many notices, and a result code in the body.

A digest has firing notices first, then the most severe, then the newest. It is cut between notices and says how many
are left out. An HTTP 200 can carry a refusal: the robot's own code decides. A 200 without a code, such as a proxy's
login page, is not a success.

DingTalk blocks a robot for ten minutes after 20 messages a minute. Feishu allows 100 a minute and 5 a second. Limits,
codes and signatures: open.dingtalk.com, "custom robots: send group messages"; open.feishu.cn, custom bot guide.
"""

import base64
import dataclasses
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

from streaming.relay.notice import NO_LINKS, Links, Notice, one_line
from streaming.relay.receivers.posting import Answer, HttpReceiver, Traits, Verdict, json_bytes
from streaming.text.language import translate
from streaming.text.result import parse_object
from streaming.text.times import span, time_text
from udfs.alerts.firing_limit import rank_of
from udfs.alerts.phrase import phrase
from udfs.alerts.static_labels import describe_labels

BODY_BYTES = 20_000
SIGNATURE_BYTES = 200
"""Room for Feishu's timestamp and sign, which are added last."""

SUMMARY_CHARACTERS = 600
ADVICE_CHARACTERS = 300
NAME_CHARACTERS = 100

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", "[": "&#91;", "]": "&#93;"})
"""Escapes of tags, links and pictures: clients choose their names. Brackets are entities, so no link syntax is left."""

Message = TypeVar("Message")
Meaning = tuple[Verdict, float | None]
"""A verdict, and the seconds until the robot takes messages again."""

BAD_KEY: Meaning = ("BAD_KEY", None)
SHUT: Meaning = ("RETRY", 600.0)
LIMITED: Meaning = ("RETRY", 60.0)
TOO_OFTEN = ("too many", "too fast", "frequency")


class Style(NamedTuple):
    """The markup of a chat: ends of lines, headings, links, escapes."""

    line_end: str
    head: str
    link: str
    escapes: Mapping[int, str]


MARKDOWN = Style("  \n", "**{}**", "[{}]({})", _ENTITIES)
PLAIN = Style("\n", "{}", "{}: {}", {})


class Robot(HttpReceiver):
    """One robot. Its code 0, in the first of CODE_FIELDS, is success; MEANINGS lists others."""

    CODE_FIELDS: tuple[str, ...]
    MESSAGE_FIELD: str
    MEANINGS: ClassVar[Mapping[int, Meaning]]

    def judge(self, answer: Answer) -> Answer:
        """Return the answer by the robot's code.

        A code that is not listed means what the HTTP status says, REFUSED on 200. A refusal whose message has one of
        TOO_OFTEN is a rate limit.
        """
        is_accepted, fields = answer.verdict == "DELIVERED", parse_object(answer.body.decode("utf-8", "replace"))
        value = next((fields[name] for name in self.CODE_FIELDS if name in fields), None)
        code = value if type(value) is int else None
        if answer.code is None or (not is_accepted and not code) or (is_accepted and code == 0):
            return answer
        if code is None:
            reason = f"{self.host} answered {answer.code} without a robot's result code"
            return Answer("RETRY", answer.code, reason)
        message = self.quote(str(fields.get(self.MESSAGE_FIELD, "")))
        unlisted: Verdict = "REFUSED" if is_accepted else answer.verdict
        verdict, seconds = self.MEANINGS.get(code, (unlisted, None))
        if verdict == "REFUSED" and any(phrase in message.lower() for phrase in TOO_OFTEN):
            verdict, seconds = LIMITED
        if verdict == "RETRY":
            seconds = max(seconds or 0.0, answer.retry_after_seconds or 0.0) or None
        return dataclasses.replace(
            answer,
            verdict=verdict,
            reason=f"{self.host} rejected the message with code {code}: {message}",
            retry_after_seconds=seconds,
        )


class DingTalk(Robot):
    """One markdown message. `url` contains its access_token; `secret` (SEC...) signs, if the robot asks for it."""

    traits = Traits(at_most=20, min_interval_ms=3_500)
    CODE_FIELDS, MESSAGE_FIELD = ("errcode",), "errmsg"
    MEANINGS: ClassVar[Mapping[int, Meaning]] = {
        -1: ("RETRY", None),  # busy
        130101: SHUT,  # send too fast
        410100: SHUT,  # send too fast
        300001: BAD_KEY,  # the token
        300005: BAD_KEY,  # token is not exist
        310000: BAD_KEY,  # sign, timestamp, keyword or address: the robot's security settings
        400101: BAD_KEY,  # the token
        400102: BAD_KEY,  # the robot is switched off
        400106: BAD_KEY,  # there is no such robot
    }

    def send(self, notices: Sequence[Notice], now_ms: int) -> Answer:
        key = self._secret
        params = signature(key, f"{now_ms}\n{key}", now_ms) if key else None
        body = json_bytes(dingtalk_message(notices, now_ms, self._links))
        return self.judge(self.post(body, now_ms, params=params, needs_body=True))


class Feishu(Robot):
    """One card of plain_text: in Feishu's markdown a client named `<at id=all></at>` would mention everybody.

    The path of `url` contains its token; `secret` signs, if the bot asks for it.
    """

    traits = Traits(at_most=20, min_interval_ms=700)
    CODE_FIELDS, MESSAGE_FIELD = ("code", "StatusCode"), "msg"  # StatusCode in older answers
    MEANINGS: ClassVar[Mapping[int, Meaning]] = {  # not 9499: "too many request", or "Bad Request", which is final
        11232: LIMITED,  # frequency limited
        19001: BAD_KEY,  # incoming webhook access token invalid
        19021: BAD_KEY,  # the signature, or its time is off by more than an hour
        19022: BAD_KEY,  # this address is not on its list
        19024: BAD_KEY,  # its keyword is not in the text
    }

    def send(self, notices: Sequence[Notice], now_ms: int) -> Answer:
        body, second = feishu_message(notices, now_ms, self._links), now_ms // 1000
        if self._secret:
            body |= signature(f"{second}\n{self._secret}", "", second)
        return self.judge(self.post(json_bytes(body), now_ms, needs_body=True))


def dingtalk_message(notices: Sequence[Notice], now_ms: int, links: Links = NO_LINKS) -> dict[str, Any]:
    """Return the request's body, at most BODY_BYTES."""
    title = headline(notices, links.language)

    def envelope(text: str) -> dict[str, Any]:
        return {"msgtype": "markdown", "markdown": {"title": title, "text": f"### {title}\n\n{text}"}}

    return digest(notices, now_ms, MARKDOWN, links, envelope, BODY_BYTES)


def feishu_message(notices: Sequence[Notice], now_ms: int, links: Links = NO_LINKS) -> dict[str, Any]:
    """Return the request's body, at most BODY_BYTES with its signature."""
    title = headline(notices, links.language)
    colour = "red" if any(notice.status == "firing" for notice in notices) else "green"

    def envelope(text: str) -> dict[str, Any]:
        return {
            "msg_type": "interactive",
            "card": {
                "header": {"template": colour, "title": {"tag": "plain_text", "content": title}},
                "elements": [{"tag": "div", "text": {"tag": "plain_text", "content": text}}],
            },
        }

    return digest(notices, now_ms, PLAIN, links, envelope, BODY_BYTES - SIGNATURE_BYTES)


def signature(key: str, text: str, timestamp: int) -> dict[str, str]:
    """Return the signature, HMAC-SHA256, with its time, as both robots name them. It is valid for an hour."""
    signed = hmac.new(key.encode(), text.encode(), hashlib.sha256).digest()
    return {"timestamp": str(timestamp), "sign": base64.b64encode(signed).decode("ascii")}


def headline(notices: Sequence[Notice], language: str = "en") -> str:
    """Return the product's name, for chats that filter by keyword, and the numbers of firing and resolved incidents."""
    titles = {"firing": phrase("{number} firing"), "resolved": phrase("{number} resolved")}
    counts = {status: sum(notice.status == status for notice in notices) for status in titles}
    shown = (translate(titles[status].given(number=count), language) for status, count in counts.items() if count)
    return "balancewatch: " + ", ".join(shown)


def digest(
    notices: Sequence[Notice],
    now_ms: int,
    style: Style,
    links: Links,
    envelope: Callable[[str], Message],
    max_bytes: int,
) -> Message:
    """Return the envelope of as many notices as `max_bytes` of JSON hold, at least one, and the number of the rest."""
    order = sorted(notices, key=lambda one: (one.status != "firing", rank_of(one.severity), -one.changed_at_ms))
    blocks = [_block(notice, now_ms, style, links) for notice in order]
    for count in range(len(blocks), 0, -1):
        more = len(blocks) - count
        rest = translate(phrase("and {number} more; see: balancewatch alerts --current", number=more), links.language)
        message = envelope("\n\n".join([*blocks[:count], *([rest] if more else [])]))
        if len(json_bytes(message)) <= max_bytes:
            break
    return message


def _block(notice: Notice, now_ms: int, style: Style, links: Links) -> str:
    kind, is_firing = one_line(notice.kind, NAME_CHARACTERS), notice.status == "firing"
    at_ms, to_ms = (notice.started_at_ms, now_ms) if is_firing else (notice.changed_at_ms, notice.changed_at_ms)
    head = phrase("RESOLVED {kind} (at {time}, after {lasted})")
    if is_firing:
        head = phrase("FIRING {severity} {kind} (since {time}, {lasted})")
        head = head if notice.is_first else phrase("FIRING {severity} {kind}, changed (since {time}, {lasted})")
    head = head.given(
        severity=notice.severity, kind=kind, time=time_text(at_ms), lasted=span(to_ms - notice.started_at_ms)
    )
    texts = [translate(head, links.language), one_line(notice.summary, SUMMARY_CHARACTERS)]
    if is_firing and notice.advice:
        fix = phrase("Fix: {advice}", advice=one_line(notice.advice, ADVICE_CHARACTERS))
        texts.append(translate(fix, links.language))
    if notice.static_labels:
        texts.append(one_line(describe_labels(notice.static_labels), SUMMARY_CHARACTERS))
    lines = [text.translate(style.escapes) for text in texts]
    lines[0] = style.head.format(lines[0])
    if is_firing and (runbook := links.runbook(notice)):
        lines.append(style.link.format(translate(phrase("Runbook"), links.language), runbook))
    if incident := links.incident(notice):
        lines.append(style.link.format(translate(phrase("Incident"), links.language), incident))
    return style.line_end.join(lines)
