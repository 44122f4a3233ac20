"""What a log line may hold: no secrets, and nothing without bounds."""

import re
from typing import Any

MASK = "***"

LONGEST = 4_000
"""Characters of a text; a page's summary and advice have up to 2,000 each."""

MOST = 100
"""Elements of a list, or keys of an object."""

DEEPEST = 12
"""Levels of lists and objects: an exception's frames are four down."""

_SECRET_KEY = re.compile(
    r"token|passw|secret|authorization|credential|api_?key|access_?key|routing_?key|jaas|cookie", re.IGNORECASE
)
_OPEN_KEY = re.compile(r"_env$", re.IGNORECASE)
"""Keys that hold the name of a variable, not its value."""

_IN_TEXT = (
    (re.compile(r"(?<=://)[^/\s\"'<>]+(?=@)"), MASK),  # http://user:password@host, to the last @ of the authority
    (
        re.compile(
            r"(?i)(authorization(?:\\*[\"']?\s*[=:]|\\*[\"']\s*,)\s*)"
            r"(b?\\*\"[^\"]*\"|b?\\*'[^']*'|[^\r\n,;}\"']+)"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(?i)([?&](?:[\w.-]*(?:key|token|secret|passw\w*)|sign|signature)=)[^&\s#\"'<>]+"), rf"\1{MASK}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/_.~=-]{8,}"), rf"\1 {MASK}"),
    (
        re.compile(
            r"(?i)([\w.-]*(?:token|passw(?:or)?d|secret|api_?key|access_?key|routing_?key|[?&]sign)(?!\w*_env\b)[\w.-]*"
            r"[\"']?\s*[=:]\s*)(b?\"[^\"]*\"|b?'[^']*'|[^\s&,;}\"']+)"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(?<=/open-apis/bot/v2/hook/)[\w-]+"), MASK),  # Feishu's address is its key
    (  # and so are these
        re.compile(
            r"(?i)(hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/"
            r"|webhook\.office\.com/webhookb2/)[^\s?\"'<>]+"
        ),
        rf"\1{MASK}",
    ),
)
_HINT = re.compile(r"(?i)token|passw|secret|key|sign|bearer|basic|authorization|@|hook")


def mask(value: Any, key: str = "", depth: int = 0) -> Any:
    """The value without secrets: whole where its key says so, else whatever in a text looks like one."""
    if _SECRET_KEY.search(key) and not _OPEN_KEY.search(key) and not isinstance(value, bool | int | float | None):
        return MASK
    if depth > DEEPEST:
        return "..."
    if isinstance(value, dict):
        return {name: mask(inner, str(name), depth + 1) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [mask(inner, "", depth + 1) for inner in value]
    is_plain = value is None or isinstance(value, bool | int | float)
    return value if is_plain else _mask_text(repr(value) if isinstance(value, BaseException) else str(value))


def bound(value: Any) -> Any:
    """The value with long texts, lists and objects cut, which says so."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[:LONGEST]}... ({len(value):,} characters)"
    if isinstance(value, dict):
        kept = dict(list(value.items())[:MOST])
        cut = {"...": f"{len(value) - MOST:,} more"} if len(value) > MOST else {}
        return {name: bound(inner) for name, inner in kept.items()} | cut
    if isinstance(value, list | tuple):
        cut_list = [f"... {len(value) - MOST:,} more"] if len(value) > MOST else []
        return [bound(inner) for inner in value[:MOST]] + cut_list
    if value is None or isinstance(value, bool | int | float | BaseException):
        return value
    return bound(str(value))


def _mask_text(text: str) -> str:
    if _HINT.search(text):
        for pattern, masked in _IN_TEXT:
            text = pattern.sub(masked, text)
    return text
