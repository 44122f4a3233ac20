"""Settings: conf/*.toml, then `BALANCEWATCH_` environment variables, then flags, then the rules file; the later wins.

Every key and its default stands in balancewatch.toml; the classes here only give each key its type and bounds,
so a default cannot exist twice.
"""

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, SecretStr, ValidationError
from pydantic_core import PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from conf.board import Board
from conf.maintenance import Maintain
from conf.metrics import Metrics
from conf.oncall import Canary, OnCall
from conf.quality import Quality
from conf.rules import Rules, merge_rules, read_rules_file
from conf.section import Milliseconds, Section, SettingsError

__all__ = ["DEFAULTS", "Rules", "Settings", "SettingsError"]

DEFAULTS = Path(__file__).with_name("balancewatch.toml")

_HIDDEN = re.compile(r"secret|access_key|options|url|_env|oncall\.(receivers|routes)(\[\d+\])?$")
"""Keys whose values may be a secret: no message shows them."""


class Kafka(Section):
    bootstrap_servers: str
    partitions: dict[str, Annotated[int, Field(ge=1)]]
    replication_factor: Annotated[int, Field(ge=1)]
    retention_hours: Annotated[int, Field(ge=1)]
    options: dict[str, str] = Field(repr=False)  # may hold a password


_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def _is_no_address(value: object) -> object:
    if _ADDRESS.match(str(value)):
        raise PydanticCustomError("path", "is an address; give a folder, on a cluster one that all its machines share")
    return value


Folder = Annotated[Path, BeforeValidator(_is_no_address)]


class Paths(Section):
    warehouse: Folder
    checkpoints: Folder
    jars: Folder


class Spark(Section):
    master: str
    driver_memory: Annotated[str, Field(pattern=r"^\d+[kmgKMG]$")]
    shuffle_partitions: Annotated[int, Field(ge=1)]
    options: dict[str, str] = Field(repr=False)  # may hold the keys of an object store


class Queries(Section):
    shards: Annotated[int, Field(ge=1)]
    trigger_ms: Annotated[int, Field(ge=0)]
    max_offsets_per_trigger: Annotated[int, Field(ge=0)]
    starting_offsets: Literal["earliest", "latest"]
    fail_on_data_loss: bool
    delta_writer: Literal["deltalake", "spark"]


class Clock(Section):
    interval_seconds: Annotated[float, Field(gt=0)]
    silent_seconds: Annotated[float, Field(gt=0)]


class Collector(Section):
    name_server: str
    cluster: str
    id: Annotated[str, Field(max_length=255)]
    interval_seconds: Annotated[float, Field(gt=0)]
    groups: list[str]
    topics: list[str]
    probe: bool
    probe_topic: str
    timeout_ms: Milliseconds
    acl_access_key: SecretStr
    acl_secret_key: SecretStr
    tls: bool


class Log(Section):
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
    oncall: OnCall
    canary: Canary
    board: Board
    maintain: Maintain
    quality: Quality
    metrics: Metrics
    log: Log
    _flags: dict[str, Any] = PrivateAttr(default_factory=dict)

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

        The rules file, where `rules.file` names one, wins over `[rules]` from everywhere else. Raises SettingsError
        with the key and the value of every setting that cannot be used.
        """
        try:
            settings = cls(**flags)
        except ValidationError as error:
            raise SettingsError(_sentences(error)) from None
        except (OSError, ValueError) as error:
            raise SettingsError(f"the settings cannot be read: {error}") from None
        if settings.rules.file:
            settings = cls._with_rules_file(settings.rules, flags)
        settings._flags = flags
        return settings

    @classmethod
    def _with_rules_file(cls, rules: Rules, flags: dict[str, Any]) -> "Settings":
        keys = read_rules_file(Path(rules.file).expanduser())
        overrides = [scope.model_dump(exclude_unset=True) for scope, _ in rules.scopes()]
        try:
            return cls(**{**flags, "rules": merge_rules(flags.get("rules", {}), keys, overrides)})
        except ValidationError as error:
            raise SettingsError(f"rules.file = {rules.file!r}: {_sentences(error)}") from None

    def load_again(self) -> "Settings":
        """Every source read anew, with the flags of the first time. Raises SettingsError."""
        return type(self).load(**self._flags)

    def files(self) -> list[Path]:
        """The files that they come from, whether they are there or not."""
        named = os.environ.get("BALANCEWATCH_CONFIG")
        more = [Path(named)] if named else []
        return [DEFAULTS, *_beside(), *more, *([Path(self.rules.file).expanduser()] if self.rules.file else [])]


def _beside() -> list[Path]:
    return sorted(path for path in DEFAULTS.parent.glob("*.toml") if path != DEFAULTS)


def _toml_files() -> list[Path]:
    """The defaults, then conf/*.toml of this folder, then the file the environment names."""
    named = os.environ.get("BALANCEWATCH_CONFIG")
    if named and not Path(named).is_file():
        raise OSError(f"BALANCEWATCH_CONFIG names {named}, which is not a file")
    return [DEFAULTS, *_beside(), *([Path(named)] if named else [])]


def _sentences(error: ValidationError) -> str:
    return "; ".join(_sentence(dict(e)) for e in error.errors())


def _sentence(error: dict[str, Any]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"] if part != "[key]")
    key = "".join(parts).removeprefix(".")
    if error["type"] == "extra_forbidden":
        return f"{key} is not a setting"
    is_shown = not _HIDDEN.search(key) and error["type"] not in ("missing", "model_type", "model_attributes_type")
    value = f" = {error['input']!r:.200}" if is_shown else ""
    message: str = error["msg"]
    return f"{key}{value}: {message[0].lower()}{message[1:]}"
