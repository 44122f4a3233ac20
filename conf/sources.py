"""Where settings come from, the later winning: balancewatch.toml, conf/*.toml, BALANCEWATCH_CONFIG, variables, flags.

A variable that begins with BALANCEWATCH_ must be a setting or be named by one (`..._env`): typing errors are found.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from conf.section import SettingsError
from conf.toml_file import TOO_DEEP, is_too_deep, read_toml

KeyPath = Sequence[str | int]


class Spot(NamedTuple):
    """What a path leads to: its type without None, and the bounds that were written at it."""

    type: Any
    bounds: tuple[Any, ...]


def spot_at(model: type[BaseModel], path: KeyPath) -> Spot | None:
    """None where the path leads to no setting."""
    spot = Spot(model, ())
    for part in path:
        inner = _inside(spot.type, part)
        if inner is None:
            return None
        spot = inner
    return spot


def names_of(model: type[BaseModel]) -> list[str]:
    """The keys of one section, as TOML writes them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def all_names(model: type[BaseModel]) -> Iterator[str]:
    """`section.key` of every setting that a variable can name."""
    for section in names_of(model):
        spot = spot_at(model, [section])
        if spot is not None and is_section(spot.type):
            yield from (f"{section}.{name}" for name in names_of(spot.type))


def is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def takes_json(spot: Spot | None) -> bool:
    """Whether a variable holds it as JSON: a section, a table or a list."""
    return spot is not None and (is_section(spot.type) or get_origin(spot.type) in (dict, list, tuple))


def _inside(kind: Any, part: str | int) -> Spot | None:
    if is_section(kind):
        fields: Mapping[str, FieldInfo] = kind.model_fields
        field = next((field for name, field in fields.items() if part == (field.alias or name)), None)
        return None if field is None else _bare(field.annotation, tuple(field.metadata))
    if get_origin(kind) is dict:
        return _bare(get_args(kind)[1])
    if get_origin(kind) in (list, tuple):
        return _bare(get_args(kind)[0])
    return None


def _bare(kind: Any, bounds: tuple[Any, ...] = ()) -> Spot:
    """Without Annotated and None; of several types the first."""
    while True:
        if get_origin(kind) is Annotated:
            kind, *more = get_args(kind)
            for one in more:
                bounds += tuple(one.metadata) if isinstance(one, FieldInfo) else (one,)
        elif get_origin(kind) in (Union, UnionType):
            kind = next(one for one in get_args(kind) if one is not type(None))
        else:
            return Spot(kind, bounds)


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

    def reach(self, path: KeyPath) -> int:
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
        """Return the merged keys; a list replaces a list."""
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

    def layer_of(self, path: KeyPath) -> Layer:
        """The strongest of those that have most of the path."""
        return max(reversed(self.layers), key=lambda layer: layer.reach(path))

    def layers_with(self, path: KeyPath) -> list[Layer]:
        """Those that have all of it, the strongest first."""
        return [layer for layer in reversed(self.layers) if layer.reach(path) == len(path)]


def read_sources(model: type[BaseModel], flags: Mapping[str, Any]) -> Sources:
    """Read all layers. Raises SettingsError with the file or variable that is unreadable or unknown."""
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
    """Return `section.key` of a BALANCEWATCH_ variable."""
    return variable[len(PREFIX) :].lower().replace("__", ".")


def _variables() -> Iterator[tuple[str, str]]:
    """Yield BALANCEWATCH_ variables: sections before their keys, which win."""
    ours = [name for name in os.environ if name.upper().startswith(PREFIX) and name.upper() != CONFIG]
    ours = [name for name in ours if not _is_kubernetes_own(name)]
    for name in sorted(ours, key=lambda name: (name.count("__"), name)):
        yield name, os.environ[name]


def _is_kubernetes_own(name: str) -> bool:
    """Return whether Kubernetes set it for a Service named balancewatch or balancewatch-..."""
    found = _KUBERNETES.fullmatch(name)
    if found is None or f"{found['service']}_SERVICE_HOST" not in os.environ:
        return False
    return name != f"{found['service']}_PORT" or "://" in os.environ[name]


def _layer(model: type[BaseModel], name: str, value: str) -> Layer:
    path = name[len(PREFIX) :].lower().split("__")
    shown = name if name.isprintable() else repr(name)
    keys: Any = value
    if takes_json(spot_at(model, path)):
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
