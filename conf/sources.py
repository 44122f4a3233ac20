"""Where settings come from, the later winning: balancewatch.toml, conf/*.toml, BALANCEWATCH_CONFIG, variables, flags.

A variable that begins with BALANCEWATCH_ must be a setting or be named by one (`..._env`): typing errors are found.
Error messages name key, value, what is allowed, and where it was set; never a secret.
"""

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from conf.section import SettingsError

KeyPath = tuple[str | int, ...]
Schema = Mapping[str, Any]
"""A JSON schema as pydantic makes it of a section."""

DEFAULTS = Path(__file__).with_name("balancewatch.toml")
DEFAULT, FLAG = _NO_PLACE = ("default", "flag")

PREFIX = "BALANCEWATCH_"
CONFIG = f"{PREFIX}CONFIG"

_KUBERNETES = re.compile(r"(?P<service>.+?)_(?P<end>SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)")


class Sources:
    """The keys of all sources; `places` has the file or variable of each key, DEFAULT, or FLAG.

    `named` are the variables that settings name.
    """

    def __init__(self, named: frozenset[str]) -> None:
        self.keys: dict[str, Any] = {}
        self.places: dict[KeyPath, str] = {}
        self.named = named

    def add(self, keys: Mapping[str, Any], place: str) -> None:
        """Add keys, which win over the known ones; a list replaces a list."""
        self._merge(self.keys, keys, place, ())

    def _merge(self, known: dict[str, Any], more: Mapping[str, Any], place: str, path: KeyPath) -> None:
        for key, value in more.items():
            below = (*path, key)
            if isinstance(value, Mapping):
                if not isinstance(known.get(key), dict):
                    known[key] = {}
                    self.places.pop(below, None)
                self._merge(known[key], value, place, below)
            else:
                known[key] = value
                self.places[below] = place

    def place_of(self, path: KeyPath) -> str:
        """Return where the key, the list that it is in, or the last key of its table was set."""
        at = [path[:end] for end in range(len(path), 0, -1) if path[:end] in self.places]
        at += [below for below in reversed(self.places) if below[: len(path)] == path]
        return self.places[at[0]] if at else DEFAULT


def read_sources(flags: Mapping[str, Any]) -> Sources:
    """Read all sources. Raises SettingsError with the file or variable that is unreadable."""
    named_file = os.environ.get(CONFIG)
    if named_file and not Path(named_file).is_file():
        raise SettingsError(f"{CONFIG} names {named_file!r}, which is not a file")
    layers = [(DEFAULT if path == DEFAULTS else str(path), read_toml(path)) for path in settings_files()]
    layers += [(name, _keys_of(name, layers[0][1])) for name in _variables()]
    layers.append((FLAG, dict(flags)))
    sources = Sources(frozenset([CONFIG, *(name for _, keys in layers for name in _named(keys))]))
    for place, keys in layers:
        if place not in sources.named:
            sources.add(keys, place)
    return sources


def settings_files() -> list[Path]:
    """Return the defaults, then conf/*.toml of this folder, then the file that the environment names."""
    named = os.environ.get(CONFIG)
    beside = sorted(path for path in DEFAULTS.parent.glob("*.toml") if path != DEFAULTS)
    return [DEFAULTS, *beside, *([Path(named)] if named else [])]


def _variables() -> list[str]:
    """Return the BALANCEWATCH_ variables: sections before their keys, which win."""
    ours = [name for name in os.environ if name.startswith(PREFIX) and not _is_kubernetes_own(name)]
    return sorted(ours, key=lambda name: (name.count("__"), name))


def _is_kubernetes_own(name: str) -> bool:
    """Return whether Kubernetes set it for a Service named balancewatch or balancewatch-..."""
    found = _KUBERNETES.fullmatch(name)
    if found is None or f"{found['service']}_SERVICE_HOST" not in os.environ:
        return False
    return found["end"] != "PORT" or "://" in os.environ[name]


def _keys_of(variable: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variable as keys. The value of a table or a list is JSON; that of an unknown key may be."""
    text = os.environ[variable]
    path = path_of(variable)
    default: Any = defaults
    for part in path:
        default = default.get(part) if isinstance(default, dict) else None
    keys: Any = text
    if isinstance(default, dict | list) or (default is None and text.startswith(("{", "["))):
        try:
            keys = json.loads(text)
        except (ValueError, RecursionError) as error:
            if default is not None:
                raise SettingsError(f"{_key(path)} is not valid JSON: {error} (set by {variable})") from None
    for part in reversed(path):
        keys = {part: keys}
    return dict(keys)


def _named(value: Any, key: str = "") -> Iterator[str]:
    """Yield the variables that settings name, such as `token_env = "..."`."""
    if isinstance(value, str) and key.endswith("_env"):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for name, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _named(inner, str(name))


def read_toml(path: Path, name: str = "") -> dict[str, Any]:
    """Return the file's keys. Raises SettingsError with `name` or the path, never with the content."""
    name = name or str(path)
    try:
        return tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise SettingsError(f"{name}: {error.strerror}; give the path of a TOML file") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{name}: not UTF-8 (at line {line}); save it as UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{name}: not valid TOML: {error}") from None


def read_rules_file(path: Path) -> dict[str, Any]:
    """Return the keys of a rules file. Raises SettingsError if it is none."""
    name = f"rules.file = {str(path)!r}"
    keys = read_toml(path, name)
    if "rules" in keys:
        raise SettingsError(f"{name}: rules is not allowed in a rules file; write the keys without the [rules] header")
    if "file" in keys:
        raise SettingsError(f"{name}: file = {keys['file']!r:.200} is not allowed in a rules file; remove it")
    return keys


_HIDDEN = re.compile(r"secret|access_key|password|options|url|_env|oncall\.(receivers|routes)(\[\d+\])?$")
"""Keys whose values may be a secret: no message shows them."""

_WITHOUT_VALUE = ("address", "missing", "model_type", "model_attributes_type")


def sentences(error: ValidationError, schema: Schema, sources: Sources) -> str:
    """Return one sentence per setting; for an unknown key one for each file or variable that sets it."""
    found: list[str] = []
    errors = [(tuple(part for part in detail["loc"] if part != "[key]"), detail) for detail in error.errors()]
    for path, detail in errors:
        if detail["type"] == "extra_forbidden":
            found += _unknown(path, schema, sources)
        elif not any(len(other) > len(path) and other[: len(path)] == path for other, _ in errors):
            found.append(_invalid(path, detail, sources))  # no list is called empty for its invalid entries
    return "; ".join(found)


def _invalid(path: KeyPath, error: Mapping[str, Any], sources: Sources) -> str:
    key, said = _key(path), str(error["msg"])
    value = "" if _HIDDEN.search(key) or error["type"] in _WITHOUT_VALUE else f" = {error['input']!r:.200}"
    if error["type"] == "literal_error":
        near = get_close_matches(str(error["input"]), re.findall("'(.*?)'", said), 1)
        said += f"; did you mean {near[0]}?" if near else ""
    place = sources.place_of(path)
    set_by = "" if place in _NO_PLACE else f" (set by {place})"
    if place == DEFAULT:  # the value contradicts another one that the sentence names
        others = {word: sources.places.get((*path[:-1], word), FLAG) for word in re.findall(r"\w+", said)}
        set_by = "".join(f" ({word} is set by {other})" for word, other in others.items() if other not in _NO_PLACE)
    return f"{key}{value}: {said[:1].lower()}{said[1:]}{set_by}"


def _unknown(path: KeyPath, schema: Schema, sources: Sources) -> Iterator[str]:
    for place in dict.fromkeys(place for at, place in sources.places.items() if at[: len(path)] == path[: len(at)]):
        unknown = max(path, path_of(place), key=len) if place.startswith(PREFIX) else path
        set_by = "" if place in _NO_PLACE else f" (set by {place})"
        yield f"{_key(unknown)} is not a setting; {_nearest(unknown, schema, sources, place)}{set_by}"


def _nearest(path: KeyPath, schema: Schema, sources: Sources, place: str) -> str:
    """Return a hint: the nearest key as the place would write it, or the keys that exist."""
    siblings = list(schema_at(schema, path[:-1]).get("properties", ())) if len(path) > 1 else []
    sections = {name: schema_at(schema, (name,)).get("properties", ()) for name in schema["properties"]}
    known = [*sections, *(f"{section}.{name}" for section, names in sections.items() for name in names)]
    known += [_key(path_of(name)) for name in sources.named if name.startswith(PREFIX)]
    elsewhere = [key for key in known if key.rpartition(".")[2] == path[-1]]
    near = (
        [_key((*path[:-1], name)) for name in get_close_matches(str(path[-1]), siblings, 1)]
        or get_close_matches(_key(path), elsewhere, 1, cutoff=0)
        or get_close_matches(_key(path), known, 1, cutoff=0.7)
    )
    if near:
        as_variable = PREFIX + near[0].upper().replace(".", "__")
        return f"did you mean {as_variable if place.startswith(PREFIX) else near[0]}?"
    return f"{_key(path[:-1])} has {', '.join(siblings)}" if siblings else f"there are {', '.join(sections)}"


def schema_at(schema: Schema, path: KeyPath) -> Schema:
    """Return the schema of the setting at a path, of several types the first; empty if there is none."""
    at = schema
    for part in path:
        at = at.get("properties", {}).get(part) or at.get("additionalProperties") or at.get("items") or {}
        at = at.get("anyOf", [at])[0]
        at = schema["$defs"][at["$ref"].rpartition("/")[2]] if "$ref" in at else at
    return at


def _key(path: KeyPath) -> str:
    """Return the key as `section.key[0]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def path_of(variable: str) -> KeyPath:
    """Return the section and the key of a BALANCEWATCH_ variable."""
    return tuple(variable[len(PREFIX) :].lower().split("__"))
