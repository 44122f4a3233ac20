"""Error messages for invalid settings: key, value, what is allowed, and where it was set; never a secret."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError

from conf.sources import (
    DEFAULTS,
    PREFIX,
    Layer,
    Sources,
    Spot,
    all_names,
    is_section,
    key_of,
    names_of,
    spot_at,
    variable_of,
)

_HIDDEN = re.compile(r"secret|access_key|password|options|url|_env|oncall\.(receivers|routes)(\[\d+\])?$")
"""Keys whose values may be a secret: no message shows them."""

MOST_SHOWN = 200
"""Characters of a value in a message."""

_WITHOUT_VALUE = ("address", "missing", "model_type", "model_attributes_type")
_NUMBER = re.compile(r"number|finite_number|(int|float)_.+|(greater|less)_than(_equal)?")
_DURATIONS = ', or a duration such as "45s", "2m" or "1h"'
_PLAIN = re.compile(r"[\w.*\-]{1,100}", re.ASCII)

Path = tuple[str | int, ...]


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


def _sentence(path: Path, error: dict[str, Any], model: type[BaseModel], sources: Sources) -> str:
    layer = sources.layer_of(path)
    if error["type"] != "missing":
        path = path[: layer.reach(path)] or path  # without the types that a value was tried as
    key = _key(_own(path, layer))
    is_shown = not _HIDDEN.search(key) and error["type"] not in _WITHOUT_VALUE
    value = f" = {_shown(error['input'])}" if is_shown else ""
    said = str(error["msg"])
    if _NUMBER.fullmatch(error["type"]) and (allowed := _allowed(spot_at(model, path))):
        said = f"{allowed}{_DURATIONS}" if str(path[-1]).endswith("_ms") else allowed
    return f"{key}{value}: {said[:1].lower()}{said[1:]}{_where(layer) or _where_its_other_is(path, said, sources)}"


def _unknown(path: Path, model: type[BaseModel], sources: Sources) -> Iterator[str]:
    """Yield a sentence for each file or variable that sets the key."""
    for layer in sources.layers_with(path):
        leaf = _to_the_leaf(path, layer)
        yield f"{_key(_own(leaf, layer))} is not a setting; {_nearest(leaf, model, sources, layer)}{_where(layer)}"


def _own(path: Path, layer: Layer) -> Path:
    """Return the path with the layer's own numbers of overrides."""
    match path:
        case ("rules", "overrides", int(number), *rest) if layer.overrides_before:
            return ("rules", "overrides", number - layer.overrides_before, *rest)
    return path


def _key(path: Path) -> str:
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


def _where_its_other_is(path: Path, said: str, sources: Sources) -> str:
    """Return where the other key that the sentence names was set, if the invalid value is a default."""
    if sources.layer_of(path).place == "":
        return ""
    for word in re.findall(r"\w+", said):
        for layer in sources.layers_with((*path[:-1], word)):
            return _where(layer).replace("(set", f"({word} is set")
    return ""


def _to_the_leaf(path: Path, layer: Layer) -> Path:
    """Return the path, extended by the only key of an unknown section."""
    value: Any = layer.keys
    for part in path:
        value = value[part]
    while isinstance(value, dict) and len(value) == 1 and len(path) < 2:
        part, value = next(iter(value.items()))
        path = (*path, part)
    return path


def _nearest(path: Path, model: type[BaseModel], sources: Sources, layer: Layer) -> str:
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


def _near_of_all(path: Path, model: type[BaseModel], sources: Sources) -> str:
    """Return the same key in another section, or the nearest spelling of a section or variable."""
    known = [*names_of(model), *all_names(model)]
    known += [key_of(name) for name in sources.named if name.startswith(PREFIX)]
    elsewhere = [key for key in known if key.rpartition(".")[2] == path[-1]]
    wanted = ".".join(map(str, path))
    near = get_close_matches(wanted, elsewhere, 1, cutoff=0) or get_close_matches(wanted, known, 1, cutoff=0.7)
    return near[0] if near else ""
