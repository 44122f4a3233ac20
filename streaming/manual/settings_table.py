"""The settings, from conf/balancewatch.toml: each key with its default and its comment."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conf.settings import DEFAULTS
from streaming.manual.block import markdown_table

_SECTION = re.compile(r"\[{1,2}(?P<name>[\w.]+)\]{1,2}")
_KEY = re.compile(r'(?P<name>[\w."*]+) = (?P<rest>.+)')


@dataclass(frozen=True)
class Key:
    """One key of the defaults' file: its section, its value in TOML, and its comment."""

    section: str
    name: str
    value: str
    comment: str

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}" if self.section else self.name


def read_keys(path: Path = DEFAULTS) -> list[Key]:
    """Return every key in the file's order.

    A comment belongs to the keys below it, up to an empty line or the next comment. A comment above `[[..]]` belongs to
    the keys in that table.
    """
    return list(_keys(path.read_text().splitlines()))


def settings_table() -> str:
    """Return key, default and meaning of each setting."""
    rows = [(f"`{key.path}`", f"`{key.value}`", key.comment) for key in read_keys()]
    return markdown_table(("key", "default", "meaning"), rows)


def _keys(lines: list[str]) -> Iterator[Key]:
    section, said, is_fresh = "", "", True
    for line in map(str.strip, lines):
        if header := _SECTION.fullmatch(line):
            section, is_fresh = header["name"], True
            said = said if line.startswith("[[") else ""
        elif line.startswith("#"):
            text = line.lstrip("# ")
            said, is_fresh = (text if is_fresh else f"{said} {text}"), False
        elif not line:
            said, is_fresh = "", True
        elif key := _KEY.fullmatch(line):
            value, beside = _without_comment(key["rest"])
            yield Key(section, key["name"], value, beside or said)
            is_fresh = True


def _without_comment(text: str) -> tuple[str, str]:
    """Return a value and the comment beside it; a # within quotes is part of the value."""
    is_quoted = False
    for position, sign in enumerate(text):
        if sign == '"':
            is_quoted = not is_quoted
        elif sign == "#" and not is_quoted:
            return text[:position].strip(), text[position + 1 :].strip()
    return text.strip(), ""
