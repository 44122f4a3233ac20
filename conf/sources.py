"""Where settings come from, the later winning: balancewatch.toml, conf/*.toml, BALANCEWATCH_CONFIG, variables, flags.

A variable that begins with BALANCEWATCH_ must be a setting or be named by one (`..._env`): typing errors are found.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from conf import shape
from conf.section import SettingsError
from conf.toml_file import TOO_DEEP, is_too_deep, read_toml

DEFAULTS = Path(__file__).with_name("balancewatch.toml")

PREFIX = "BALANCEWATCH_"
CONFIG = f"{PREFIX}CONFIG"

_KUBERNETES = re.compile(
    r"(?P<service>.+?)_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PORT|PROTO|ADDR))?)?)"
)


@dataclass(frozen=True)
class Layer:
    """Keys that were set together. `place` is the file or the variable, empty for flags and the rules file."""

    keys: Mapping[str, Any]
    place: str = ""
    overrides_before: int = 0
    """Of its [[rules.overrides]], those that other layers set."""

    @property
    def is_variable(self) -> bool:
        return self.place.upper().startswith(PREFIX)

    def reach(self, path: shape.Path) -> int:
        """How many parts of the path it has."""
        value: Any = self.keys
        for depth, part in enumerate(path):
            if isinstance(value, Mapping) and part in value:
                value = value[part]
            elif isinstance(value, Sequence) and not isinstance(value, str) and isinstance(part, int):
                if part >= len(value):
                    return depth
                value = value[part]
            else:
                return depth
        return len(path)


@dataclass(frozen=True)
class Sources:
    """All layers, the strongest last, and the variables that are no settings and yet ours."""

    layers: tuple[Layer, ...]
    named: frozenset[str]

    def merged(self) -> dict[str, Any]:
        """Key by key; a list is taken whole."""
        merged: dict[str, Any] = {}
        for layer in self.layers:
            merged = merge(merged, layer.keys)
        return merged

    def with_rules(self, keys: Mapping[str, Any]) -> "Sources":
        """With those of a rules file, whose overrides come after all others."""
        before = self.merged()["rules"]["overrides"]
        own = keys.get("overrides", [])
        if isinstance(own, list):
            keys = {**keys, "overrides": [*before, *own]}
        return Sources((*self.layers, Layer({"rules": keys}, overrides_before=len(before))), self.named)

    def layer_of(self, path: shape.Path) -> Layer:
        """The strongest of those that have most of the path."""
        return max(reversed(self.layers), key=lambda layer: layer.reach(path))

    def layers_with(self, path: shape.Path) -> list[Layer]:
        """Those that have all of it, the strongest first."""
        return [layer for layer in reversed(self.layers) if layer.reach(path) == len(path)]


def read_sources(model: type[BaseModel], flags: Mapping[str, Any]) -> Sources:
    """Raises SettingsError, with the file or the variable, for what cannot be read or is none of ours."""
    named_file = os.environ.get(CONFIG)
    if named_file and not Path(named_file).is_file():
        raise SettingsError(f"{CONFIG} names {named_file!r}, which is not a file")
    files = [Layer(read_toml(path), str(path)) for path in settings_files()]
    variables = dict(_variables())
    layers = [*files, *(_layer(model, name, value) for name, value in variables.items()), Layer(flags)]
    named = frozenset([CONFIG, *_named(files[0].keys), *_named(Sources(tuple(layers), frozenset()).merged())])
    return Sources(tuple(layer for layer in layers if layer.place not in named & variables.keys()), named)


def settings_files() -> list[Path]:
    """The defaults, then conf/*.toml of this folder, then the file the environment names."""
    named = os.environ.get(CONFIG)
    beside = sorted(path for path in DEFAULTS.parent.glob("*.toml") if path != DEFAULTS)
    return [DEFAULTS, *beside, *([Path(named)] if named else [])]


def merge(known: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """`more` over `known`."""
    merged = dict(known)
    for key, value in more.items():
        before = merged.get(key)
        merged[key] = merge(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
    return merged


def variable_of(key: str) -> str:
    """The variable that sets `section.key`."""
    return PREFIX + key.upper().replace(".", "__")


def key_of(variable: str) -> str:
    """`section.key` of a variable of ours."""
    return variable[len(PREFIX) :].lower().replace("__", ".")


def _variables() -> Iterator[tuple[str, str]]:
    """Of ours; whole sections before their keys, which win over them."""
    ours = [name for name in os.environ if name.upper().startswith(PREFIX) and name.upper() != CONFIG]
    ours = [name for name in ours if not _is_kubernetes_own(name)]
    for name in sorted(ours, key=lambda name: (name.count("__"), name)):
        yield name, os.environ[name]


def _is_kubernetes_own(name: str) -> bool:
    """Of a Service called balancewatch or balancewatch-..., which Kubernetes tells every container beside it."""
    found = _KUBERNETES.fullmatch(name)
    if found is None or f"{found['service']}_SERVICE_HOST" not in os.environ:
        return False
    return name != f"{found['service']}_PORT" or "://" in os.environ[name]


def _layer(model: type[BaseModel], name: str, value: str) -> Layer:
    path = name[len(PREFIX) :].lower().split("__")
    shown = name if name.isprintable() else repr(name)
    keys: Any = value
    if shape.takes_json(shape.spot_at(model, path)):
        keys = _json(shown, ".".join(path), value)
    for part in reversed(path):
        keys = {part: keys}
    if is_too_deep(keys):
        raise SettingsError(f"{shown}: {TOO_DEEP}")
    return Layer(keys, name)


def _json(name: str, key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{error.msg} (at line {error.lineno}, column {error.colno})"
        raise SettingsError(f"{key} is not valid JSON: {where} (set by {name})") from None
    except RecursionError:
        raise SettingsError(f"{key} is not valid JSON: {TOO_DEEP} (set by {name})") from None
    except ValueError:
        raise SettingsError(f"{key}: a number has too many digits (set by {name})") from None


def _named(value: Any) -> Iterator[str]:
    """The variables that settings name: `token_env = "..."` and its like."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, str) and str(key).endswith("_env"):
                yield inner
            else:
                yield from _named(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _named(inner)
