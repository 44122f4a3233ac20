"""Read a TOML file, or raise an error with its name and line."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conf.section import SettingsError

MOST_BYTES = 1 << 20
"""The largest settings or rules file."""

MOST_DEPTH = 16
"""Of tables and lists in each other; the deepest setting has 6."""

TOO_DEEP = f"tables or lists nest more than {MOST_DEPTH} deep"


def read_toml(path: Path, name: str = "") -> dict[str, Any]:
    """The file's keys. Raises SettingsError with `name` or the path, never with the content."""
    name = name or str(path)
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"{name}: {error.strerror}; give the path of a TOML file") from None
    if len(text) > MOST_BYTES:
        raise SettingsError(f"{name}: the file is larger than {MOST_BYTES >> 20} MiB; shorten it")
    try:
        keys = tomllib.loads(text.decode())
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{name}: not UTF-8 (at line {line}); save it as UTF-8") from None
    except RecursionError:
        raise SettingsError(f"{name}: {TOO_DEEP}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{name}: not valid TOML: {error}") from None
    except ValueError:  # a number of more digits than Python reads
        raise SettingsError(f"{name}: a number has too many digits") from None
    if is_too_deep(keys):
        raise SettingsError(f"{name}: {TOO_DEEP}")
    return keys


def is_too_deep(value: Any) -> bool:
    """Whether containers nest deeper than MOST_DEPTH; without recursion, for that is what they would end."""
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, Mapping | list)
            for inner in (one.values() if isinstance(one, Mapping) else one)
        ]
    return any(isinstance(one, Mapping | list) for one in level)
