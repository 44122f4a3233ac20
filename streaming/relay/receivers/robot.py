"""Chat robots: one address, a signature, many notices in a message, and a result code in the body.

A digest has firing notices first, then the most severe, then the newest. It is cut between notices and says how many
are left out. An HTTP 200 can carry a refusal: the robot's own code decides. A 200 without a code, such as a proxy's
login page, is not a success.
"""

import bisect
import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streaming.relay.notice import NO_LINKS, Links, Notice, lasted, one_line
from streaming.relay.receivers.posting import Answer, Poster, Reply, Verdict, json_bytes
from streaming.text.times import time_text
from udfs.alerts.firing_limit import SEVERITIES

SUMMARY_CHARACTERS = 600
ADVICE_CHARACTERS = 300
NAME_CHARACTERS = 100

ORDER = {severity: number for number, severity in enumerate(SEVERITIES)}

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", "[": "&#91;", "]": "&#93;"})
"""Escapes of tags, links and pictures: clients choose their names. Brackets are entities, so no link syntax is left."""


@dataclass(frozen=True)
class Style:
    """The markup of a chat: ends of lines and notices, headings, escapes, links."""

    line_end: str
    notice_end: str
    head: Callable[[str], str]
    escape: Callable[[str], str]
    link: Callable[[str, str], str]


MARKDOWN = Style(
    "  \n",
    "\n\n",
    lambda text: f"**{text}**",
    lambda text: text.translate(_ENTITIES),
    lambda word, url: f"[{word}]({url})",
)
PLAIN = Style("\n", "\n\n", str, str, lambda word, url: f"{word}: {url}")


def headline(notices: Sequence[Notice]) -> str:
    """Return the product's name, for chats that filter by keyword, and the numbers of firing and resolved incidents."""
    counts = {status: sum(notice.status == status for notice in notices) for status in ("firing", "resolved")}
    return "balancewatch: " + ", ".join(f"{count} {status}" for status, count in counts.items() if count)


def in_order(notices: Sequence[Notice]) -> list[Notice]:
    """Return firing ones first; then by severity; then the newest."""
    return sorted(
        notices,
        key=lambda notice: (notice.status != "firing", ORDER.get(notice.severity, 1), -notice.changed_at_ms),
    )


def digest(
    notices: Sequence[Notice], now_ms: int, style: Style, is_fit: Callable[[str], bool], links: Links = NO_LINKS
) -> str:
    """Return the text of as many notices as `is_fit` allows, at least one, and the number of the others."""
    blocks = [_block(notice, now_ms, style, links) for notice in in_order(notices)]

    def text(count: int) -> str:
        more = len(blocks) - count
        rest = [f"and {more} more; see: balancewatch alerts --current"] if more else []
        return style.notice_end.join([*blocks[:count], *rest])

    if is_fit(everything := text(len(blocks))):
        return everything
    # Of the texts of 2, 3, ... notices, which grow, bisect counts those that fit; one notice is sent in any case.
    return text(bisect.bisect(range(2, len(blocks)), False, key=lambda count: not is_fit(text(count))) + 1)


def fits(envelope: Callable[[str], Any], max_bytes: int) -> Callable[[str], bool]:
    """Return whether a text, in its envelope, is at most `max_bytes` of JSON."""
    return lambda text: len(json_bytes(envelope(text))) <= max_bytes


def _block(notice: Notice, now_ms: int, style: Style, links: Links) -> str:
    kind, is_firing = one_line(notice.kind, NAME_CHARACTERS), notice.status == "firing"
    if is_firing:
        ago = lasted(now_ms - notice.started_at_ms)
        update = "" if notice.is_first else ", changed"
        head = f"FIRING {notice.severity} {kind}{update} (since {time_text(notice.started_at_ms)}, {ago})"
    else:
        ago = lasted(notice.changed_at_ms - notice.started_at_ms)
        head = f"RESOLVED {kind} (at {time_text(notice.changed_at_ms)}, after {ago})"
    lines = [style.head(style.escape(head)), style.escape(one_line(notice.summary, SUMMARY_CHARACTERS))]
    if is_firing and notice.advice:
        lines.append(style.escape("Fix: " + one_line(notice.advice, ADVICE_CHARACTERS)))
    if is_firing and (runbook := links.runbook(notice)):
        lines.append(style.link("Runbook", runbook))
    if incident := links.incident(notice):
        lines.append(style.link("Incident", incident))
    return style.line_end.join(lines)


def judge(
    reply: Reply,
    poster: Poster,
    code_fields: tuple[str, ...],
    message_field: str,
    verdicts: Mapping[int, tuple[Verdict, float | None]],
) -> Answer:
    """Return the answer by the first of `code_fields` in the body: 0 is success; `verdicts` lists others.

    A code that is not listed means what the HTTP status says, REFUSED on 200. A message with "too many" or "too fast"
    is a rate limit.
    """
    answer, fields = reply.answer, reply.fields()
    is_accepted = answer.verdict == "DELIVERED"
    code = _code(reply.body, fields, code_fields)
    if answer.code is None or (not is_accepted and not code) or (is_accepted and code == 0):
        return answer
    if code is None:
        return Answer("RETRY", answer.code, f"{poster.host} answered {answer.code} without a robot's result code")
    message = poster.quote(str(fields.get(message_field, "")))
    unlisted: Verdict = "REFUSED" if is_accepted else answer.verdict
    verdict, seconds = verdicts.get(code, (unlisted, None))
    if verdict == "REFUSED" and any(phrase in message.lower() for phrase in ("too many", "too fast", "frequency")):
        verdict, seconds = "RETRY", 60.0
    if verdict == "RETRY":
        seconds = max(seconds or 0.0, answer.retry_after_seconds or 0.0) or None
    return dataclasses.replace(
        answer,
        verdict=verdict,
        reason=f"{poster.host} rejected the message with code {code}: {message}",
        retry_after_seconds=seconds,
    )


def _code(body: bytes, fields: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """Return the robot's code; of an incomplete object too, if the number is complete."""
    value = next((fields[name] for name in names if name in fields), None)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,11}", value):
        return int(value)
    for name in names if body.lstrip().startswith(b"{") else ():
        if found := re.search(rb'"%s"\s*:\s*(-?\d{1,11})\s*[,}]' % name.encode(), body):
            return int(found[1])
    return None
