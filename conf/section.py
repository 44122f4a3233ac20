"""The base of every settings section: frozen, without unknown keys, finite numbers, durations as text."""

import re
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ValidationInfo

Milliseconds = Annotated[int, Field(gt=0, le=604_800_000)]
Seconds = Annotated[float, Field(gt=0, le=604_800)]

_DURATION = re.compile(r"(\d{1,12}) ?(ms|s|m|h|d)", re.ASCII)
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def _is_no_bool(value: object) -> object:
    """Refuse `tasks = true`, which Python would take for 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("number", "must be a number")
    return value


NO_BOOL = BeforeValidator(_is_no_bool)
"""For the numbers in a table; `Section` checks its own."""


def must_match(pattern: str, allowed: str) -> AfterValidator:
    """Return a validator of text; its error says `allowed` instead of the pattern."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise PydanticCustomError("characters", "{allowed}", {"allowed": allowed})
        return text

    return AfterValidator(check)


_VARIABLE = "[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE_HAS = "give the name of an environment variable: letters, digits and _, not beginning with a digit"
Variable = Annotated[str, must_match(_VARIABLE, _VARIABLE_HAS)]
VariableOrNone = Annotated[str, must_match(f"({_VARIABLE})?", f"{_VARIABLE_HAS}; or nothing")]


class SettingsError(ValueError):
    """A setting cannot be used. The message is one sentence per key: the key, the value, and what is wrong."""


class Section(BaseModel):
    """One table of balancewatch.toml. A key that ends in `_ms` takes milliseconds or text such as "45s"."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _read_number(cls, value: object, field: ValidationInfo) -> object:
        name = str(field.field_name)
        if not _takes_number(cls.model_fields[name].annotation):
            return value
        return _milliseconds(value) if name.endswith("_ms") else _is_no_bool(value)


def _milliseconds(value: object) -> object:
    if isinstance(value, str) and (found := _DURATION.fullmatch(value)):
        return int(found[1]) * _UNIT_MS[found[2]]
    return _is_no_bool(value)


def _takes_number(annotation: Any) -> bool:
    kinds = {annotation, *get_args(annotation)}
    return bool(kinds & {int, float}) or any(int in get_args(kind) or float in get_args(kind) for kind in kinds)
