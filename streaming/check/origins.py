"""Origin of a setting: the last of defaults, other files, environment and rules file."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conf.settings import DEFAULTS, Settings

DEFAULT = "default"


class Origins:
    """Origins of the loaded settings; of the flags only `--rules` is known."""

    def __init__(self, settings: Settings) -> None:
        rules_file = Path(settings.rules.file).expanduser() if settings.rules.file else None
        self._rules_file = (str(rules_file), _read(rules_file)) if rules_file else None
        self._files = [(str(path), _read(path)) for path in settings.files() if path not in (DEFAULTS, rules_file)]

    def of_rule(self, key: str) -> str:
        """Return the origin of a rule, such as `settle_ms`: a file, a variable, or "default"."""
        names = key.split(".")
        if self._rules_file and _has(self._rules_file[1], names):
            return self._rules_file[0]
        return self.of(f"rules.{key}")

    def of(self, key: str) -> str:
        """Return the origin of a setting, such as `quality.alert_share`, without the rules file."""
        path = key.split(".")
        variables = {name.upper() for name in os.environ}
        for length in range(len(path), 0, -1):
            variable = f"BALANCEWATCH_{'__'.join(path[:length])}".upper()
            if variable in variables and (length == len(path) or f'"{path[-1]}"' in os.environ.get(variable, "")):
                return variable
        return next((name for name, keys in reversed(self._files) if _has(keys, path)), DEFAULT)


def _has(keys: Mapping[str, Any], path: list[str]) -> bool:
    value: Any = keys
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return False
        value = value[name]
    return True


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, ValueError):
        return {}  # another process is changing the file, which was valid a moment ago
