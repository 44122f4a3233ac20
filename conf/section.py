"""The base of every settings section: frozen, without unknown keys, finite numbers, durations as text."""

import re
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, GetPydanticSchema, field_validator
from pydantic_core import PydanticCustomError, core_schema
from pydantic_core.core_schema import ValidationInfo

Milliseconds = Annotated[int, Field(gt=0, le=604_800_000)]
Seconds = Annotated[float, Field(gt=0, le=604_800)]
Port = Annotated[int, Field(ge=0, le=65_535)]
Pattern = Annotated[str, Field(min_length=1, max_length=255)]
"""A glob."""

Patterns = Annotated[
    tuple[Pattern, ...], BeforeValidator(lambda value: value if isinstance(value, list | tuple) else (value,))
]
"""One glob or several."""

_DURATION = re.compile(r"(\d{1,9}) ?(ms|s|m|h|d)", re.ASCII)
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str) -> int | None:
    """Return `2h` in ms; None for an invalid duration."""
    found = _DURATION.fullmatch(text.strip())
    return int(found[1]) * _UNIT_MS[found[2]] if found else None


def invalid(text: str, kind: str = "value") -> PydanticCustomError:
    """Return the error of a value: `text` follows key and value.

    The kind "address" leaves out the value; "number" replaces the text with the bounds, if there are any.
    """
    return PydanticCustomError(kind, "{text}", {"text": text})


def _is_no_bool(value: object) -> object:
    """Refuse `tasks = true`, which Python reads as 1."""
    if isinstance(value, bool):
        raise invalid("must be a number", "number")
    return value


NO_BOOL = BeforeValidator(_is_no_bool)
"""For the numbers in a table; `Section` checks its own."""


def require(holds: Callable[[Any], object], allowed: str) -> AfterValidator:
    """Return a validator; its error is `allowed`."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise invalid(allowed)
        return value

    return AfterValidator(check)


def not_below(key: str, why: str = "") -> AfterValidator:
    """Return a validator of a number and an earlier key of the section, if that is valid."""

    def check(number: float, known: ValidationInfo) -> float:
        if (other := known.data.get(key)) is not None and number < other:
            raise invalid(f"must not be below {key} = {other:g}{why}")
        return number

    return AfterValidator(check)


def one_of(words: Iterable[str]) -> GetPydanticSchema:
    """Return the annotation of text that is one of these words, as Literal has them."""
    return GetPydanticSchema(lambda _source, _handler: core_schema.literal_schema([*words]))


_VARIABLE = "[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE_HAS = "give the name of an environment variable: letters, digits and _, not beginning with a digit"
Variable = Annotated[str, require(re.compile(_VARIABLE).fullmatch, _VARIABLE_HAS)]
VariableOrNone = Annotated[str, require(re.compile(f"({_VARIABLE})?").fullmatch, f"{_VARIABLE_HAS}; or nothing")]


class SettingsError(ValueError):
    """Settings are invalid. The message is one sentence per key: the key, the value, and what is allowed."""


class Section(BaseModel):
    """One table of balancewatch.toml. A key that ends in `_ms` takes milliseconds or text such as "45s"."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _read_number(cls, value: object, field: ValidationInfo) -> object:
        name = str(field.field_name)
        if not _takes_number(cls.model_fields[name].annotation):
            return value
        ms = duration_ms(value) if name.endswith("_ms") and isinstance(value, str) else None
        return _is_no_bool(value) if ms is None else ms


def _takes_number(annotation: Any) -> bool:
    """Whether the type is a number, an optional one, or one with bounds."""
    return annotation in (int, float) or any(map(_takes_number, get_args(annotation)[:2]))


class Served(Section):
    """A section with the address of an HTTP server."""

    host: Annotated[str, Field(min_length=1, max_length=255)]
    port: Port

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return self.host.lower() == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False
