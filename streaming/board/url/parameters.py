"""What a URL asks of a page: its query parameters, bounded, read with a sentence for what cannot be used."""

import re
from collections.abc import Collection, Mapping
from urllib.parse import parse_qsl, urlencode

from streaming.text.time_text import parse_span
from streaming.text.times import DAY

MOST_PARAMETERS = 20
LONGEST_VALUE = 512

LONGEST_SPAN_MS = 3_650 * DAY
"""Ten years: RocketMQ keeps nothing that long, and a moment so far before now is still one that every clock has."""


class AskedError(ValueError):
    """The URL asks for something that there is not. The message is one sentence with the parameter and its value."""


def read_asked(search: str, known: Collection[str]) -> Mapping[str, str]:
    """The parameters of a URL's `?...`, empty ones left out. Raises AskedError."""
    try:
        pairs = parse_qsl(search.removeprefix("?"), max_num_fields=MOST_PARAMETERS, errors="strict")
    except (ValueError, UnicodeDecodeError):
        raise AskedError(f"The URL has more than {MOST_PARAMETERS} parameters, or is not UTF-8.") from None
    asked = {name: value.strip() for name, value in pairs}
    for name, value in asked.items():
        if name not in known:
            choices = f"it knows {', '.join(sorted(known))}" if known else "it takes none"
            raise AskedError(f"{name[:60]!r} is no parameter of this page; {choices}.")
        if len(value) > LONGEST_VALUE or not value.isprintable():
            raise AskedError(f"{name} is longer than {LONGEST_VALUE} characters or has unprintable ones; shorten it.")
    return asked


def href(path: str, asked: Mapping[str, str | int | None] | None = None, /, **more: str | int | None) -> str:
    """A link to a page with these parameters; None and "" are left out. Keywords win over the mapping."""
    given = {**(asked or {}), **more}
    query = urlencode({name: value for name, value in given.items() if value not in (None, "")})
    return f"{path}?{query}" if query else path


def parse_url_span(value: str) -> int | None:
    """As `parse_span`; a blank before the unit, which a URL has as a plus, is let pass."""
    return parse_span(_BLANK.sub("", value))


_BLANK = re.compile(r"(?<=\d)\s+(?=[smhd]$)")


def read_span_ms(asked: Mapping[str, str], name: str, default: str) -> int:
    """A span such as 30m, 24h or 7d in ms. Raises AskedError."""
    value = asked.get(name, default)
    span_ms = parse_url_span(value)
    if not span_ms:
        raise AskedError(f"{name} = {value!r} is no span of time; give a number and s, m, h or d, such as {default}.")
    if span_ms > LONGEST_SPAN_MS:
        raise AskedError(f"{name} = {value!r} is longer than ten years; give a shorter span, such as {default}.")
    return span_ms


def read_choice(asked: Mapping[str, str], name: str, choices: Collection[str], default: str = "") -> str:
    """One of the choices, or the default where it is not asked. Raises AskedError."""
    value = asked.get(name, default)
    if value != default and value not in choices:
        raise AskedError(f"{name} = {value!r}: choose one of {', '.join(choices)}.")
    return value


def read_number(asked: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """A whole number within the bounds, such as a page or a moment in epoch ms. Raises AskedError."""
    value = asked.get(name)
    if value is None:
        return default
    if not re.fullmatch(r"-?\d{1,15}", value) or not least <= int(value) <= most:
        raise AskedError(f"{name} = {value!r}: give a whole number from {least} to {most}.")
    return int(value)
