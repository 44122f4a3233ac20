"""Settings: conf/*.toml, then `BALANCEWATCH_` environment variables, then flags; the later wins.

Every key and its default stands in balancewatch.toml; the classes here only give each key its type and bounds,
so a default cannot exist twice.
"""

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

DEFAULTS = Path(__file__).with_name("balancewatch.toml")

_HIDDEN = re.compile(r"secret|access_key|options")
"""Keys whose values may be a secret: no message shows them."""

Milliseconds = Annotated[int, Field(gt=0)]


class SettingsError(ValueError):
    """A setting cannot be used. The message is one sentence a key: the key, the value, and what is wrong."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Kafka(_Section):
    bootstrap_servers: str
    partitions: dict[str, Annotated[int, Field(ge=1)]]
    replication_factor: Annotated[int, Field(ge=1)]
    retention_hours: Annotated[int, Field(ge=1)]
    options: dict[str, str] = Field(repr=False)  # may hold a password


class Paths(_Section):
    warehouse: Path
    checkpoints: Path
    jars: Path


class Spark(_Section):
    master: str
    driver_memory: Annotated[str, Field(pattern=r"^\d+[kmgKMG]$")]
    shuffle_partitions: Annotated[int, Field(ge=1)]
    options: dict[str, str] = Field(repr=False)  # may hold the keys of an object store


class Queries(_Section):
    shards: Annotated[int, Field(ge=1)]
    trigger_ms: Annotated[int, Field(ge=0)]
    max_offsets_per_trigger: Annotated[int, Field(ge=0)]
    starting_offsets: Literal["earliest", "latest"]
    fail_on_data_loss: bool
    delta_writer: Literal["deltalake", "spark"]


class Clock(_Section):
    interval_seconds: Annotated[float, Field(gt=0)]


class Rules(_Section):
    channel_expired_ms: Milliseconds
    pull_silence_ms: Milliseconds
    settle_ms: Milliseconds
    heartbeat_late_ms: Milliseconds
    allocate_message_queue_strategy: Literal["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"]
    fault_item_idle_ms: Milliseconds
    broker_isolated_share: Annotated[float, Field(gt=0, le=1)]
    broker_isolated_hold_ms: Milliseconds
    broker_isolated_clear_ms: Milliseconds
    broker_evicted_ms: Milliseconds
    offset_regression_messages: Annotated[int, Field(ge=1)]


class Collector(_Section):
    name_server: str
    cluster: str
    interval_seconds: Annotated[float, Field(gt=0)]
    groups: list[str]
    topics: list[str]
    probe: bool
    probe_topic: str
    timeout_ms: Milliseconds
    acl_access_key: SecretStr
    acl_secret_key: SecretStr
    tls: bool


class Log(_Section):
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"]
    format: Literal["auto", "console", "json"]


class Settings(BaseSettings):
    """All settings of one process. `Settings.load(...)` is the way to one."""

    model_config = SettingsConfigDict(
        env_prefix="BALANCEWATCH_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    kafka: Kafka
    paths: Paths
    spark: Spark
    queries: Queries
    clock: Clock
    rules: Rules
    collector: Collector
    log: Log

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        toml = TomlConfigSettingsSource(settings_cls, toml_file=_toml_files(), deep_merge=True)
        return init_settings, env_settings, toml

    @classmethod
    def load(cls, **flags: Any) -> "Settings":
        """Read every source. `flags` are sections of keys (`kafka={"bootstrap_servers": ...}`) and win.

        Raises SettingsError with the key and the value of every setting that cannot be used.
        """
        try:
            return cls(**flags)
        except ValidationError as error:
            raise SettingsError("; ".join(_sentence(dict(e)) for e in error.errors())) from None
        except (OSError, ValueError) as error:
            raise SettingsError(f"the settings cannot be read: {error}") from None


def _toml_files() -> list[Path]:
    """The defaults, then conf/*.toml of this folder, then the file the environment names."""
    beside = sorted(path for path in DEFAULTS.parent.glob("*.toml") if path != DEFAULTS)
    named = os.environ.get("BALANCEWATCH_CONFIG")
    if named and not Path(named).is_file():
        raise OSError(f"BALANCEWATCH_CONFIG names {named}, which is not a file")
    return [DEFAULTS, *beside, *([Path(named)] if named else [])]


def _sentence(error: dict[str, Any]) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{key} is not a setting"
    is_shown = not _HIDDEN.search(key) and error["type"] not in ("missing", "model_type", "model_attributes_type")
    value = f" = {error['input']!r}" if is_shown else ""
    message: str = error["msg"]
    return f"{key}{value}: {message[0].lower()}{message[1:]}"
