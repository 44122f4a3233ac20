"""The shape of the settings: what stands at a key's path, and which keys there are."""

from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Path = Sequence[str | int]


class Spot(NamedTuple):
    """What a path leads to: its type without None, and the bounds that were written at it."""

    type: Any
    bounds: tuple[Any, ...]


def spot_at(model: type[BaseModel], path: Path) -> Spot | None:
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
