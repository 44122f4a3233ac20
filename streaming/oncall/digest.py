"""Many notices as one message to a chat: what is on before what is over, the most severe and then the newest first.

It is cut on whole notices and says how many are left out; a single notice is shortened so that it always fits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from streaming.oncall.links import NO_LINKS, Links
from streaming.oncall.notice import Notice
from streaming.oncall.posting import json_bytes
from streaming.oncall.text import lasted, one_line
from streaming.text.times import time_text
from udfs.alerts.firing_limit import SEVERITIES

SUMMARY_CHARACTERS = 600
ADVICE_CHARACTERS = 300
NAME_CHARACTERS = 100

ORDER = {severity: number for number, severity in enumerate(SEVERITIES)}


def _as_markdown(text: str) -> str:
    """Takes the meaning from what would be a tag, a link or a picture: names come from clients, whoever they are.

    A bracket is an entity, so that nothing of a link's syntax is left, inline or by reference.
    """
    return text.translate(_ENTITIES)


_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", "[": "&#91;", "]": "&#93;"})


@dataclass(frozen=True)
class Style:
    """How a chat wants its text: what ends a line and a notice, how a head stands out, what is escaped, a link."""

    line_end: str
    notice_end: str
    head: Callable[[str], str]
    escape: Callable[[str], str]
    link: Callable[[str, str], str]


MARKDOWN = Style("  \n", "\n\n", lambda text: f"**{text}**", _as_markdown, lambda word, url: f"[{word}]({url})")
PLAIN = Style("\n", "\n\n", str, str, lambda word, url: f"{word}: {url}")


def headline(notices: Sequence[Notice]) -> str:
    """Who speaks, and how many incidents are on and over. Chats that filter by keyword can ask for the name."""
    counts = {status: sum(notice.status == status for notice in notices) for status in ("firing", "resolved")}
    return "balancewatch: " + ", ".join(f"{count} {status}" for status, count in counts.items() if count)


def in_order(notices: Sequence[Notice]) -> list[Notice]:
    """Firing first; then by severity; then the newest."""
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
    """The text of all `notices`, or of as many of the first as `is_fit` allows, and how many more there are.

    At least one is told. `is_fit` is asked with a whole text: it knows the envelope that the text goes into.
    """
    blocks = [_block(notice, now_ms, style, links) for notice in in_order(notices)]

    def notified(count: int) -> str:
        more = len(blocks) - count
        rest = [f"and {more} more; see: balancewatch alerts --current"] if more else []
        return style.notice_end.join([*blocks[:count], *rest])

    if is_fit(whole := notified(len(blocks))):
        return whole
    low, high = 1, len(blocks) - 1  # the longest text that fits, by halving
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if is_fit(notified(middle)) else (low, middle - 1)
    return notified(low)


def fits(envelope: Callable[[str], Any], max_bytes: int) -> Callable[[str], bool]:
    """Whether a text, in its envelope, is at most `max_bytes` of JSON."""
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
