"""Words for people and machines out of a notice: one line, cut on whole characters, times as they are read."""

import re
from datetime import UTC, datetime

CUT = "…"

_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """`text` as UTF-8 can carry it: what is half a surrogate pair becomes the replacement character."""
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str, characters: int) -> str:
    """`text` without line breaks and control characters, at most `characters` long, the last one an ellipsis if cut."""
    line = " ".join("".join(one if one.isprintable() else " " for one in clean(text)).split())
    return line if len(line) <= characters else line[: characters - 1] + CUT


def cut_list(items: tuple[str, ...], at_most: int) -> str:
    """The first `at_most` items, by commas, and how many more there are."""
    more = len(items) - at_most
    return ", ".join(items[:at_most]) + (f" and {more} more" if more > 0 else "")


def rfc3339(ms: int) -> str:
    """Epoch ms as RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock(ms: int) -> str:
    """Epoch ms as people say it: day and second, UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def lasted(ms: int) -> str:
    """A duration in the largest unit that says it well."""
    seconds = max(0, ms) // 1000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds // 3_600} h"
