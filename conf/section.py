"""What every section of the settings is: a frozen value without unknown keys, whose numbers are finite."""

from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ValidationInfo

Milliseconds = Annotated[int, Field(gt=0, le=604_800_000)]
Seconds = Annotated[float, Field(gt=0, le=604_800)]


def _is_no_bool(value: object) -> object:
    """`tasks = true` is a mistake, though Python's True is 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("number", "must be a number")
    return value


NO_BOOL = BeforeValidator(_is_no_bool)
"""For the numbers in a table; those of a section are looked at there."""


class SettingsError(ValueError):
    """A setting cannot be used. The message is one sentence a key: the key, the value, and what is wrong."""


class Section(BaseModel):
    """One table of balancewatch.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_bool_for_a_number(cls, value: object, field: ValidationInfo) -> object:
        return _is_no_bool(value) if _takes_number(cls.model_fields[str(field.field_name)].annotation) else value


def _takes_number(annotation: Any) -> bool:
    kinds = {annotation, *get_args(annotation)}
    return bool(kinds & {int, float}) or any(int in get_args(kind) or float in get_args(kind) for kind in kinds)
