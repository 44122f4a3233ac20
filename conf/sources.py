"""Where settings come from, the later winning: balancewatch.toml, conf/*.toml, BALANCEWATCH_CONFIG, variables, flags.

A variable that begins with BALANCEWATCH_ must be a setting or be named by one (`..._env`): typing errors are found.
Error messages name key, value, what is allowed, and where it was set; never a secret.
"""

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from conf.section import SettingsError

KeyPath = Sequence[str | int]


class Spot(NamedTuple):
    """A setting's type without None, and its bounds."""

    type: Any
    bounds: tuple[Any, ...]


def spot_at(model: type[BaseModel], path: KeyPath) -> Spot | None:
    """Return the setting at a path; None if there is none."""
    spot = Spot(model, ())
    for part in path:
        inner = _inside(spot.type, part)
        if inner is None:
            return None
        spot = inner
    return spot


def names_of(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def all_names(model: type[BaseModel]) -> Iterator[str]:
    """Yield `section.key` of every setting that a variable can set."""
    for section in names_of(model):
        spot = spot_at(model, [section])
        if spot is not None and is_section(spot.type):
            yield from (f"{section}.{name}" for name in names_of(spot.type))


def is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


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
    """Return the type without Annotated and None; of several types the first."""
    while True:
        if get_origin(kind) is Annotated:
            kind, *more = get_args(kind)
            for bound in more:
                bounds += tuple(bound.metadata) if isinstance(bound, FieldInfo) else (bound,)
        elif get_origin(kind) in (Union, UnionType):
            kind = next(other for other in get_args(kind) if other is not type(None))
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

    @property
    def is_variable(self) -> bool:
        return self.place.upper().startswith(PREFIX)

    def reach(self, path: KeyPath) -> int:
        """Return how many parts of the path the layer has."""
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
    """All layers, the strongest last, and the names of variables that settings name."""

    layers: tuple[Layer, ...]
    named: frozenset[str]

    def merged(self) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for layer in self.layers:
            merged = merge(merged, layer.keys)
        return merged

    def with_rules(self, keys: Mapping[str, Any]) -> "Sources":
        """Return the sources with the keys of a rules file, whose overrides come after all others."""
        overrides = [*self.merged()["rules"]["overrides"], *keys.get("overrides", [])]
        return Sources((*self.layers, Layer({"rules": {**keys, "overrides": overrides}})), self.named)

    def layer_of(self, path: KeyPath) -> Layer:
        """Return the strongest of the layers that have most of the path."""
        return max(reversed(self.layers), key=lambda layer: layer.reach(path))

    def layers_with(self, path: KeyPath) -> list[Layer]:
        """Return the layers that have the entire path, the strongest first."""
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
    """Return the defaults, then conf/*.toml of this folder, then the file that the environment names."""
    named = os.environ.get(CONFIG)
    beside = sorted(path for path in DEFAULTS.parent.glob("*.toml") if path != DEFAULTS)
    return [DEFAULTS, *beside, *([Path(named)] if named else [])]


def merge(known: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of both; `more` wins, and a list replaces a list."""
    merged = dict(known)
    for key, value in more.items():
        before = merged.get(key)
        merged[key] = merge(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
    return merged


def variable_of(key: str) -> str:
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
    spot = spot_at(model, path)
    if spot is not None and (is_section(spot.type) or get_origin(spot.type) in (dict, list, tuple)):
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
    """Yield the variables that settings name, such as `token_env = "..."`."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, str) and str(key).endswith("_env"):
                yield inner
            else:
                yield from _named(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _named(inner)


MOST_BYTES = 1 << 20
"""The largest settings or rules file."""

MOST_DEPTH = 16
"""Depth of nested tables and lists; the deepest setting has 6."""

TOO_DEEP = f"tables or lists nest more than {MOST_DEPTH} deep"


def read_toml(path: Path, name: str = "") -> dict[str, Any]:
    """Return the file's keys. Raises SettingsError with `name` or the path, never with the content."""
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


def read_rules_file(path: Path) -> dict[str, Any]:
    """Return the keys of a rules file. Raises SettingsError if it is none."""
    name = f"rules.file = {str(path)!r}"
    keys = read_toml(path, name)
    if "rules" in keys:
        raise SettingsError(f"{name}: rules is not allowed in a rules file; write the keys without the [rules] header")
    if "file" in keys:
        raise SettingsError(f"{name}: file = {keys['file']!r:.200} is not allowed in a rules file; remove it")
    return keys


def is_too_deep(value: Any) -> bool:
    """Return whether containers nest deeper than MOST_DEPTH; without recursion, which they would exhaust."""
    level = [value]
    for _ in range(MOST_DEPTH):
        containers = [item for item in level if isinstance(item, Mapping | list)]
        level = [item for outer in containers for item in (outer.values() if isinstance(outer, Mapping) else outer)]
    return any(isinstance(item, Mapping | list) for item in level)


_HIDDEN = re.compile(r"secret|access_key|password|options|url|_env|oncall\.(receivers|routes)(\[\d+\])?$")
"""Keys whose values may be a secret: no message shows them."""

MOST_SHOWN = 200
"""Characters of a value in a message."""

_WITHOUT_VALUE = ("address", "missing", "model_type", "model_attributes_type")
_NUMBER = re.compile(r"number|finite_number|(int|float)_.+|(greater|less)_than(_equal)?")
_DURATIONS = ', or a duration such as "45s", "2m" or "1h"'
_PLAIN = re.compile(r"[\w.*\-]{1,100}", re.ASCII)


def sentences(error: ValidationError, model: type[BaseModel], sources: Sources) -> str:
    """Return one sentence per setting. Errors of a list that follow from errors of its entries are left out."""
    details: list[dict[str, Any]] = [dict(detail) for detail in error.errors()]
    errors = [(tuple(part for part in detail["loc"] if part != "[key]"), detail) for detail in details]
    paths = [path for path, _ in errors]
    return "; ".join(
        sentence
        for path, detail in errors
        if not any(len(other) > len(path) and other[: len(path)] == path for other in paths)
        for sentence in (
            _unknown(path, model, sources)
            if detail["type"] == "extra_forbidden"
            else [_sentence(path, detail, model, sources)]
        )
    )


def _sentence(path: KeyPath, error: dict[str, Any], model: type[BaseModel], sources: Sources) -> str:
    layer = sources.layer_of(path)
    if error["type"] != "missing":
        path = path[: layer.reach(path)] or path  # without the types that a value was tried as
    key = _key(path)
    is_shown = not _HIDDEN.search(key) and error["type"] not in _WITHOUT_VALUE
    value = f" = {_shown(error['input'])}" if is_shown else ""
    said = str(error["msg"])
    if _NUMBER.fullmatch(error["type"]) and (allowed := _allowed(spot_at(model, path))):
        said = f"{allowed}{_DURATIONS}" if str(path[-1]).endswith("_ms") else allowed
    return f"{key}{value}: {said[:1].lower()}{said[1:]}{_where(layer) or _where_its_other_is(path, said, sources)}"


def _unknown(path: KeyPath, model: type[BaseModel], sources: Sources) -> Iterator[str]:
    """Yield a sentence for each file or variable that sets the key."""
    for layer in sources.layers_with(path):
        leaf = _to_the_leaf(path, layer)
        yield f"{_key(leaf)} is not a setting; {_nearest(leaf, model, sources, layer)}{_where(layer)}"


def _key(path: KeyPath) -> str:
    """Return the key as `section.key[0]`, without control characters."""
    parts = (
        f"[{part}]" if isinstance(part, int) else f".{part if _PLAIN.fullmatch(part) else repr(part[:100])}"
        for part in path
    )
    return "".join(parts).removeprefix(".")


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits
        return "(too long to show)"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _allowed(spot: Spot | None) -> str:
    """Return `give an integer from 1 to 64`; empty for a setting without bounds."""
    if spot is None or spot.type not in (int, float):
        return ""
    found = {name: getattr(one, name) for one in spot.bounds for name in ("ge", "gt", "le", "lt") if hasattr(one, name)}
    kind = "an integer" if spot.type is int else "a number"
    match found:
        case {"ge": least, "le": most}:
            return f"give {kind} from {_figure(least)} to {_figure(most)}"
        case {"gt": under, "le": most}:
            return f"give {kind} above {_figure(under)}, at most {_figure(most)}"
        case {"ge": least, "lt": over}:
            return f"give {kind} from {_figure(least)}, below {_figure(over)}"
    return ""


def _figure(number: float) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)


def _where(layer: Layer) -> str:
    """Return where the value was set, without control characters; empty for flags and defaults."""
    if layer.place in ("", str(DEFAULTS)):
        return ""
    return f" (set by {layer.place if layer.place.isprintable() else repr(layer.place)})"


def _where_its_other_is(path: KeyPath, said: str, sources: Sources) -> str:
    """Return where the other key that the sentence names was set, if the invalid value is a default."""
    if sources.layer_of(path).place == "":
        return ""
    for word in re.findall(r"\w+", said):
        for layer in sources.layers_with((*path[:-1], word)):
            return _where(layer).replace("(set", f"({word} is set")
    return ""


def _to_the_leaf(path: KeyPath, layer: Layer) -> KeyPath:
    """Return the path, extended by the only key of an unknown section."""
    value: Any = layer.keys
    for part in path:
        value = value[part]
    while isinstance(value, dict) and len(value) == 1 and len(path) < 2:
        part, value = next(iter(value.items()))
        path = (*path, part)
    return path


def _nearest(path: KeyPath, model: type[BaseModel], sources: Sources, layer: Layer) -> str:
    """Return a hint: the nearest key as the layer would write it, or the keys that exist."""
    parent = spot_at(model, path[:-1])
    siblings = names_of(parent.type) if parent is not None and is_section(parent.type) else []
    near = get_close_matches(str(path[-1]), siblings, 1) if len(path) > 1 else []
    meant = _key((*path[:-1], near[0])) if near else _near_of_all(path, model, sources)
    if meant:
        return f"did you mean {variable_of(meant) if layer.is_variable else meant}?"
    if siblings and len(path) > 1:
        return f"{_key(path[:-1])} has {', '.join(siblings)}"
    return f"there are {', '.join(names_of(model))}"


def _near_of_all(path: KeyPath, model: type[BaseModel], sources: Sources) -> str:
    """Return the same key in another section, or the nearest spelling of a section or variable."""
    known = [*names_of(model), *all_names(model)]
    known += [key_of(name) for name in sources.named if name.startswith(PREFIX)]
    elsewhere = [key for key in known if key.rpartition(".")[2] == path[-1]]
    wanted = ".".join(map(str, path))
    near = get_close_matches(wanted, elsewhere, 1, cutoff=0) or get_close_matches(wanted, known, 1, cutoff=0.7)
    return near[0] if near else ""
