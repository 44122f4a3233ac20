"""What every section of the settings is: a frozen value without unknown keys."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Milliseconds = Annotated[int, Field(gt=0)]


class SettingsError(ValueError):
    """A setting cannot be used. The message is one sentence a key: the key, the value, and what is wrong."""


class Section(BaseModel):
    """One table of balancewatch.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
