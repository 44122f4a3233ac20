"""Query parameters of a page: bounded, validated, with an error message for each invalid one."""

import re
from collections.abc import Collection, Mapping
from urllib.parse import parse_qsl, urlencode

from streaming.text.time_text import parse_span
from streaming.text.times import DAY

MOST_PARAMETERS = 20
LONGEST_VALUE = 512

LONGEST_SPAN_MS = 3_650 * DAY
"""Ten years. RocketMQ keeps nothing that long, and the resulting time is valid on every clock."""


class AskedError(ValueError):
    """A URL parameter that cannot be used. The message names the parameter and its value."""


def read_asked(search: str, known: Collection[str]) -> Mapping[str, str]:
    """Return the parameters of a URL's `?...` without empty ones. Raises AskedError."""
    try:
        pairs = parse_qsl(search.removeprefix("?"), max_num_fields=MOST_PARAMETERS, errors="strict")
    except (ValueError, UnicodeDecodeError):
        raise AskedError(f"The URL has more than {MOST_PARAMETERS} parameters or is not UTF-8.") from None
    asked = {name: value.strip() for name, value in pairs}
    for name, value in asked.items():
        if name not in known:
            choices = f"allowed: {', '.join(sorted(known))}" if known else "it has none"
            raise AskedError(f"{name[:60]!r} is not a parameter of this page; {choices}.")
        if len(value) > LONGEST_VALUE or not value.isprintable():
            raise AskedError(f"{name} is invalid: at most {LONGEST_VALUE} characters, all printable, are allowed.")
    return asked


def href(path: str, asked: Mapping[str, str | int | None] | None = None, /, **more: str | int | None) -> str:
    """Return a link to a page with these parameters, without None and "". Keywords override the mapping."""
    given = {**(asked or {}), **more}
    query = urlencode({name: value for name, value in given.items() if value not in (None, "")})
    return f"{path}?{query}" if query else path


def parse_url_span(value: str) -> int | None:
    """Parse like `parse_span`, and accept a space before the unit, which a URL writes as a plus."""
    return parse_span(_BLANK.sub("", value))


_BLANK = re.compile(r"(?<=\d)\s+(?=[smhd]$)")


def read_span_ms(asked: Mapping[str, str], name: str, default: str) -> int:
    """Return a duration such as 30m, 24h or 7d in ms. Raises AskedError."""
    value = asked.get(name, default)
    span_ms = parse_url_span(value)
    if not span_ms:
        raise AskedError(f"{name} = {value!r} is not a duration; give a number with s, m, h or d, such as {default}.")
    if span_ms > LONGEST_SPAN_MS:
        raise AskedError(f"{name} = {value!r} is longer than ten years; give a shorter duration, such as {default}.")
    return span_ms


def read_choice(asked: Mapping[str, str], name: str, choices: Collection[str], default: str = "") -> str:
    """Return one of the choices, or the default for a missing parameter. Raises AskedError."""
    value = asked.get(name, default)
    if value != default and value not in choices:
        raise AskedError(f"{name} = {value!r}: choose one of {', '.join(choices)}.")
    return value


def read_number(asked: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """Return an integer within the bounds, such as a page. Raises AskedError."""
    value = asked.get(name)
    if value is None:
        return default
    if not re.fullmatch(r"-?\d{1,15}", value) or not least <= int(value) <= most:
        raise AskedError(f"{name} = {value!r}: give an integer from {least} to {most}.")
    return int(value)
