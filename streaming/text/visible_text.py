"""Escapes for untrusted text: characters that control a terminal or are invisible.

Escaped are control characters (C0, DEL, C1) except line feed and tab, direction marks, line and paragraph separators,
characters without a width, and halves of surrogate pairs. All other characters stay.
"""

import re
from typing import Any

_UNSEEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # the direction of reading
    "\u2028\u2029"  # ends of lines and paragraphs
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164"  # no width
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # nor these
    "\ud800-\udfff"  # halves
)
_IN_TEXT = re.compile(f"[{_UNSEEN}]")
_IN_NAME = re.compile(f"[{_UNSEEN}\t\n]")


def visible(text: str) -> str:
    r"""Return the text with escapes such as `\x1b` and `\u202e`; line feeds and tabs stay."""
    return text if _is_plain(text) else _IN_TEXT.sub(lambda one: _written_out(one[0]), text)


def visible_name(text: str) -> str:
    r"""Return a text of one line, with line feeds and tabs escaped too."""
    return text if _is_plain(text) else _IN_NAME.sub(lambda one: _written_out(one[0]), text)


def visible_json(text: str) -> str:
    """Return JSON of the same value with invisible characters, which occur only in its strings, escaped."""
    return text if _is_plain(text) else _IN_TEXT.sub(lambda one: _as_json(one[0]), text)


def visible_value(value: Any) -> Any:
    """Return a value of JSON with `visible` names and texts."""
    if isinstance(value, dict):
        return {visible(name): visible_value(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [visible_value(inner) for inner in value]
    return visible(value) if isinstance(value, str) else value


def visible_label(text: str) -> str:
    """Return a label for Prometheus' text format, which doubles backslashes."""
    return text if _is_plain(text) else _IN_TEXT.sub(lambda one: "\\" + _written_out(one[0]), text)


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _written_out(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _as_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
