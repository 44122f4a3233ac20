"""The base of every settings section: frozen, without unknown keys; and the types of its values."""

import re
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, GetPydanticSchema, ValidationError
from pydantic_core import PydanticCustomError, core_schema
from pydantic_core.core_schema import ValidationInfo

_DURATION = re.compile(r"(\d{1,9}) ?(ms|s|m|h|d)", re.ASCII)
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_WEEK_MS = 7 * _UNIT_MS["d"]


def duration_ms(text: str) -> int | None:
    """Return `2h` in ms; None for an invalid duration."""
    found = _DURATION.fullmatch(text.strip())
    return int(found[1]) * _UNIT_MS[found[2]] if found else None


def invalid(text: str, kind: str = "value") -> PydanticCustomError:
    """Return the error of a value: `text` follows key and value. The kind "address" leaves out the value."""
    return PydanticCustomError(kind, "{text}", {"text": text})


def between(least: float, most: float, *, is_open: bool = False, is_ms: bool = False) -> GetPydanticSchema:
    """Return the annotation of an int or float from `least` to `most`; with `is_open` above `least`.

    `is_ms` also allows text such as "45s".
    """
    bounds, text = Field(ge=least, le=most), f"from {least} to {most}"
    if is_open:
        bounds, text = Field(gt=least, le=most), f"above {least}, at most {most}"

    def schema(number: Any, handler: Callable[[Any], core_schema.CoreSchema]) -> core_schema.CoreSchema:
        allowed = f"give {'an integer' if number is int else 'a number'} {text}"
        allowed += ', or a duration such as "45s", "2m" or "1h"' if is_ms else ""

        def read(value: object, check: Callable[[object], Any]) -> Any:
            ms = duration_ms(value) if is_ms and isinstance(value, str) else None
            try:
                if not isinstance(value, bool):  # Python reads `tasks = true` as 1
                    return check(value if ms is None else ms)
            except ValidationError:
                pass
            raise invalid(allowed)

        return core_schema.no_info_wrap_validator_function(read, handler(Annotated[number, bounds]))

    return GetPydanticSchema(schema)


def require(holds: Callable[[Any], object], allowed: str) -> AfterValidator:
    """Return a validator; its error is `allowed`."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise invalid(allowed)
        return value

    return AfterValidator(check)


def not_below(key: str) -> AfterValidator:
    """Return a validator of a number and an earlier key of the section, if that is valid."""

    def check(number: float, known: ValidationInfo) -> float:
        if (other := known.data.get(key)) is not None and number < other:
            raise invalid(f"must not be below {key} = {other:g}")
        return number

    return AfterValidator(check)


def one_of(words: Iterable[str]) -> GetPydanticSchema:
    """Return the annotation of text that is one of these words, as Literal has them."""
    return GetPydanticSchema(lambda _source, _handler: core_schema.literal_schema([*words]))


Milliseconds = Annotated[int, between(1, _WEEK_MS, is_ms=True)]
MillisecondsOrZero = Annotated[int, between(0, _WEEK_MS, is_ms=True)]
Port = Annotated[int, between(0, 65_535)]
Name = Annotated[str, Field(min_length=1, max_length=255)]
"""A name of RocketMQ, a host, or a glob of names."""

Patterns = Annotated[
    tuple[Name, ...], BeforeValidator(lambda value: value if isinstance(value, list | tuple) else (value,))
]
"""One glob or several."""

_VARIABLE = "[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE_HAS = "give the name of an environment variable: letters, digits and _, not beginning with a digit"
Variable = Annotated[str, require(re.compile(_VARIABLE).fullmatch, _VARIABLE_HAS)]
VariableOrNone = Annotated[str, require(re.compile(f"({_VARIABLE})?").fullmatch, f"{_VARIABLE_HAS}; or nothing")]


class SettingsError(ValueError):
    """Settings are invalid. The message is one sentence per key: the key, the value, and what is allowed."""


class Section(BaseModel):
    """One table of balancewatch.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Served(Section):
    """A section with the address of an HTTP server."""

    host: Name
    port: Port

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return self.host.lower() == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False
