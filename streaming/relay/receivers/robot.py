"""Chat robots: one address, a signature, many notices in a message, and a result code in the body.

A digest has firing notices first, then the most severe, then the newest. It is cut between notices and says how many
are left out. An HTTP 200 can carry a refusal: the robot's own code decides. A 200 without a code, such as a proxy's
login page, is not a success.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streaming.relay.notice import NO_LINKS, Links, Notice, lasted, one_line
from streaming.relay.receivers.posting import TIME_OUTS, Answer, Poster, Reply, TimeOuts, Verdict, json_bytes
from streaming.text.times import time_text
from udfs.alerts.firing_limit import SEVERITIES

SUMMARY_CHARACTERS = 600
ADVICE_CHARACTERS = 300
NAME_CHARACTERS = 100

ORDER = {severity: number for number, severity in enumerate(SEVERITIES)}


def _as_markdown(text: str) -> str:
    """Escape tags, links and pictures: clients choose their names. Brackets are entities, so no link syntax is left."""
    return text.translate(_ENTITIES)


_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", "[": "&#91;", "]": "&#93;"})


@dataclass(frozen=True)
class Style:
    """The markup of a chat: ends of lines and notices, headings, escapes, links."""

    line_end: str
    notice_end: str
    head: Callable[[str], str]
    escape: Callable[[str], str]
    link: Callable[[str, str], str]


MARKDOWN = Style("  \n", "\n\n", lambda text: f"**{text}**", _as_markdown, lambda word, url: f"[{word}]({url})")
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
    notices: Sequence[Notice],
    now_ms: int,
    style: Style,
    is_fit: Callable[[str], bool],
    links: Links = NO_LINKS,
) -> str:
    """Return the text of as many notices as `is_fit` allows, at least one, and the number of the others."""
    blocks = [_block(notice, now_ms, style, links) for notice in in_order(notices)]

    def notified(count: int) -> str:
        more = len(blocks) - count
        rest = [f"and {more} more; see: balancewatch alerts --current"] if more else []
        return style.notice_end.join([*blocks[:count], *rest])

    if is_fit(whole := notified(len(blocks))):
        return whole
    low, high = 1, len(blocks) - 1  # the longest text that fits, by bisection
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if is_fit(notified(middle)) else (low, middle - 1)
    return notified(low)


def fits(envelope: Callable[[str], Any], max_bytes: int) -> Callable[[str], bool]:
    """Return whether a text, in its envelope, is at most `max_bytes` of JSON."""
    return lambda text: len(json_bytes(envelope(text))) <= max_bytes


def _block(notice: Notice, now_ms: int, style: Style, links: Links) -> str:
    kind = one_line(notice.kind, NAME_CHARACTERS)
    if notice.status == "firing":
        ago = lasted(now_ms - notice.started_at_ms)
        update = "" if notice.is_first else ", changed"
        head = f"FIRING {notice.severity} {kind}{update} (since {time_text(notice.started_at_ms)}, {ago})"
    else:
        ago = lasted(notice.changed_at_ms - notice.started_at_ms)
        head = f"RESOLVED {kind} (at {time_text(notice.changed_at_ms)}, after {ago})"
    lines = [style.head(style.escape(head)), style.escape(one_line(notice.summary, SUMMARY_CHARACTERS))]
    if notice.status == "firing" and notice.advice:
        lines.append(style.escape("Fix: " + one_line(notice.advice, ADVICE_CHARACTERS)))
    if notice.status == "firing" and (runbook := links.runbook(notice)):
        lines.append(style.link("Runbook", runbook))
    if incident := links.incident(notice):
        lines.append(style.link("Incident", incident))
    return style.line_end.join(lines)


class Robot:
    """One robot. `url` contains its token; `secret` signs, if its security setting asks for it."""

    at_most = 20
    is_leased = False

    def __init__(
        self,
        name: str,
        url: str,
        *,
        secret: str | None = None,
        links: Links = NO_LINKS,
        time_outs: TimeOuts = TIME_OUTS,
    ) -> None:
        """Raises AddressError."""
        self.name = name
        self._secret = secret
        self._links = links
        self._poster = Poster(url, secrets=[secret] if secret else [], time_outs=time_outs)

    def close(self) -> None:
        self._poster.close()


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
    answer = reply.answer
    if answer.code is None:
        return answer
    fields = reply.fields()
    code = _number(next((fields[name] for name in code_fields if name in fields), None))
    if code is None:
        code = _code_in(reply.body, code_fields)
    if code is None or (code == 0 and answer.verdict != "DELIVERED"):
        if answer.verdict != "DELIVERED":
            return answer
        return Answer("RETRY", answer.code, f"{poster.host} answered {answer.code} without a robot's result code")
    if code == 0:
        return answer
    message = poster.quote(str(fields.get(message_field, "")))
    unlisted: Verdict = "REFUSED" if answer.verdict == "DELIVERED" else answer.verdict  # the HTTP status decides
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


def _code_in(body: bytes, code_fields: tuple[str, ...]) -> int | None:
    """Return the code of an incomplete body, if it is an object and the number is complete."""
    for name in code_fields:
        found = re.search(rb'"%s"\s*:\s*(-?\d{1,11})\s*[,}]' % name.encode(), body)
        if found and body.lstrip().startswith(b"{"):
            return int(found[1])
    return None


def _number(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) < 12 else None
