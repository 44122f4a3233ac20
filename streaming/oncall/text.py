"""Words for people and machines out of a notice: one line, cut on whole characters, how long it lasted."""

import re

from streaming.text.visible_text import visible_name

CUT = "…"

_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    r"""`text`, a name or a word, as UTF-8 can carry it and a reader sees it: `\x0a` and `\u202e` are written out.

    What is half a surrogate pair becomes the replacement character.
    """
    return visible_name(_whole(text))


def one_line(text: str, characters: int) -> str:
    """`text` with blanks for line breaks and what is not seen, at most `characters` long, an ellipsis where cut."""
    line = " ".join("".join(one if one.isprintable() else " " for one in _whole(text)).split())
    line = visible_name(line)  # what has no width is printable to Python now and then
    return line if len(line) <= characters else line[: characters - 1] + CUT


def _whole(text: str) -> str:
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def cut_list(items: tuple[str, ...], at_most: int) -> str:
    """The first `at_most` items, by commas, and how many more there are."""
    more = len(items) - at_most
    return ", ".join(items[:at_most]) + (f" and {more} more" if more > 0 else "")


def lasted(ms: int) -> str:
    """A duration in the largest unit that says it well."""
    seconds = max(0, ms) // 1000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds // 3_600} h"
