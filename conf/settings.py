"""Settings: conf/*.toml, then `BALANCEWATCH_` environment variables, flags, the rules file; later ones win.

balancewatch.toml has every key and its default; the classes here only give each key its type and bounds.
"""

import re
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, SecretStr, ValidationError

from conf.board import Board
from conf.location import Location
from conf.oncall import Canary, LabelRule, Mute, OnCall
from conf.rules import Rules
from conf.section import (
    Name,
    Port,
    Section,
    Served,
    SettingsError,
    VariableOrNone,
    between,
    invalid,
    not_below,
    one_of,
    require,
)
from conf.sources import DEFAULTS, Sources, read_rules_file, read_sources, read_toml, sentences, settings_files
from schemas.events import EVENTS
from schemas.tables import TABLES
from udfs.alerts.static_labels import LabelRules


class Quality(Section):
    every_batches: Annotated[int, between(0, 1_000_000)]
    pause_seconds: Annotated[float, between(1, 86_400)]
    sample_messages: Annotated[int, between(1, 100_000)]
    sample_bytes: Annotated[int, between(1 << 10, 256 << 20)]
    alert_share: Annotated[float, between(0, 1)]
    alert_validations: Annotated[int, between(1, 1_000)]


Hours = Annotated[int, between(1, 87_600)]


class Maintain(Section):
    """All of `[maintain]`. Tables that `retention_days` does not name, or sets to 0, keep all rows."""

    retention_days: dict[Annotated[str, one_of(TABLES)], Annotated[int, between(0, 36_500)]]
    target_file_mb: Annotated[int, between(1, 4_096)]
    min_files: Annotated[int, between(2, 1_000_000)]
    beside_seconds: Annotated[float, between(0, 86_400)]
    reader_hours: Hours
    reader_commits: Annotated[int, between(1_000, 100_000_000)]


_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_STORE = re.compile(r"s3a?://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[\w.=-]+)*", re.ASCII)


def _read_location(scheme: str, value: object) -> Location:
    """Return a folder or, where there is a scheme, a bucket's URL. Other URLs may hold a secret and are never shown."""
    text = str(value) if isinstance(value, str | Path) else ""
    if text and not _ADDRESS.match(text):
        return Path(text)
    if scheme and _STORE.fullmatch(text.rstrip("/")) and not {".", ".."} & set(text.split("/")):
        if not text.startswith(f"{scheme}:"):
            raise invalid(f"must begin with {scheme}://; give {scheme}{text[text.index(':') :]}")
        return text.rstrip("/")
    store = (
        f", or {scheme}://bucket/prefix with letters, digits and . _ = - only; put credentials and endpoint in the "
        "environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL)"
    )
    raise invalid(f"give a folder{store if scheme else ''}", "address")


class Paths(Section):
    warehouse: Annotated[Location, PlainValidator(partial(_read_location, "s3"))]
    checkpoints: Annotated[Location, PlainValidator(partial(_read_location, "s3a"))]  # as Hadoop names it
    jars: Annotated[Path, PlainValidator(partial(_read_location, ""))]


__all__ = ["DEFAULTS", "Rules", "Settings", "SettingsError"]


def _is_memory_of(least: str, most: str) -> AfterValidator:
    """A JVM's memory, such as "512m"."""
    return require(
        lambda text: re.fullmatch(r"\d{1,12}[kmgKMG]", text) and _bytes(least) <= _bytes(text) <= _bytes(most),
        f"give a number and its unit, k, m or g, from {least} to {most}",
    )


def _bytes(memory: str) -> int:
    return int(memory[:-1]) << {"k": 10, "m": 20, "g": 30}[memory[-1].lower()]


class Kafka(Section):
    bootstrap_servers: Annotated[str, Field(max_length=10_000)]
    partitions: dict[Annotated[str, one_of(EVENTS)], Annotated[int, between(1, 10_000)]]
    replication_factor: Annotated[int, between(1, 100)]
    retention_hours: Hours
    options: dict[str, str] = Field(repr=False)  # may hold a password


class Spark(Section):
    master: Annotated[str, Field(min_length=1, max_length=1_000)]
    driver_memory: Annotated[str, _is_memory_of("450m", "1024g")]
    options: dict[str, str] = Field(repr=False)  # may hold the keys of an object store


class Queries(Section):
    tasks: Annotated[int, between(0, 10_000)]
    trigger_ms: Annotated[int, between(0, 3_600_000, is_ms=True)]
    rest_ms: Annotated[int, between(0, 60_000, is_ms=True)]
    max_offsets_per_trigger: Annotated[int, between(0, 1_000_000_000)]
    starting_offsets: Literal["earliest", "latest"]
    fail_on_data_loss: bool
    sync: bool


class Clock(Section):
    interval_seconds: Annotated[float, between(0.1, 3_600)]
    collector_timeout_seconds: Annotated[float, between(1, 86_400)]


class Collector(Section):
    name_server: Annotated[str, Field(max_length=10_000)]
    cluster: Annotated[str, Field(max_length=255)]
    id: Annotated[str, Field(max_length=255)]
    interval_seconds: Annotated[float, between(0.1, 3_600)]
    groups: Annotated[list[Name], Field(max_length=10_000)]
    topics: Annotated[list[Name], Field(max_length=100_000)]
    probe: bool
    probe_topic: Name
    timeout_ms: Annotated[int, between(100, 600_000, is_ms=True)]
    requests_per_second: Annotated[int, between(10, 1_000_000)]
    lease_seconds: Annotated[
        float, between(0, 600), require(lambda number: not 0 < number < 2, "give 0, or a number from 2 to 600")
    ]
    jvm_memory: Annotated[str, _is_memory_of("64m", "64g")]
    acl_access_key: SecretStr
    acl_secret_key: SecretStr
    tls: bool
    tls_ca: Annotated[str, Field(max_length=4_096)]
    tls_certificate: Annotated[str, Field(max_length=4_096)]
    tls_key: Annotated[str, Field(max_length=4_096)]
    tls_key_password: SecretStr


class Metrics(Served):
    enabled: bool
    relay_port: Port
    health_port: Port
    relay_health_port: Port
    token_env: VariableOrNone
    max_groups: Annotated[int, between(1, 100_000)]
    unready_after_seconds: Annotated[float, between(15, 86_400)]
    unhealthy_after_seconds: Annotated[float, between(30, 86_400), not_below("unready_after_seconds")]


class Log(Section):
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"]
    format: Literal["auto", "console", "json"]


class Settings(Section):
    """All settings of one process, made by `Settings.load`."""

    language: Literal["en", "zh"]
    kafka: Kafka
    paths: Paths
    spark: Spark
    queries: Queries
    clock: Clock
    rules: Rules
    collector: Collector
    labels: tuple[LabelRule, ...] = Field(max_length=500)  # before the sections that match on them
    oncall: OnCall
    mutes: tuple[Mute, ...] = Field(max_length=100)
    canary: Canary
    board: Board
    maintain: Maintain
    quality: Quality
    metrics: Metrics
    log: Log
    _flags: dict[str, Any]
    _sources: Sources

    @classmethod
    def load(cls, **flags: Any) -> "Settings":
        """Read every source. `flags` are sections of keys (`kafka={"bootstrap_servers": ...}`) and win.

        The file of `rules.file` wins over `[rules]` of every other source. Raises SettingsError with key, value and
        source of every invalid setting.
        """
        sources = read_sources(flags)
        settings = cls._of(sources)
        if settings.rules.file:
            file = Path(settings.rules.file).expanduser()
            sources.add({"rules": {"overrides": [], **read_rules_file(file)}}, str(file))
            overrides = settings.rules.overrides
            settings = cls._of(sources)  # errors number the file's own overrides
            rules = settings.rules.model_copy(update={"overrides": (*overrides, *settings.rules.overrides)})
            settings = settings.model_copy(update={"rules": rules})
        settings._flags, settings._sources = flags, sources
        return settings

    @classmethod
    def load_for_relay(cls, **flags: Any) -> "Settings":
        """Read the sections that notifications need; the others have their defaults, so an invalid one does not matter.

        Raises SettingsError.
        """
        sources = read_sources(flags)
        own = {"language", "paths", "labels", "oncall", "mutes", "canary", "board", "log"}
        sources.keys = read_toml(DEFAULTS) | {name: keys for name, keys in sources.keys.items() if name in own}
        return cls._of(sources)

    @classmethod
    def _of(cls, sources: Sources) -> "Settings":
        try:
            return cls.model_validate(sources.keys, context=set())
        except ValidationError as error:
            raise SettingsError(sentences(error, cls.model_json_schema(), sources)) from None

    @property
    def runbooks_url(self) -> str:
        """Return the base URL of the runbooks: the one of [oncall], else the board's pages."""
        return self.oncall.runbook_base_url or f"{self.oncall.board_url or self.board.own_url}/runbooks"

    @property
    def label_rules(self) -> LabelRules:
        return [(rule.match, rule.set_) for rule in self.labels]

    def origin_of(self, key: str) -> str:
        """Return where `section.key` was set: a file, a variable, "flag", or "default"."""
        return self._sources.place_of(tuple(key.split(".")))

    def load_again(self) -> "Settings":
        """Return the settings of all sources, read again, with the same flags. Raises SettingsError."""
        return type(self).load(**self._flags)

    def files(self) -> list[Path]:
        return [*settings_files(), *([Path(self.rules.file).expanduser()] if self.rules.file else [])]
