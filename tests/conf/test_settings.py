"""Settings: the order of the sources, and error messages."""

from pathlib import Path
from typing import Any

import pytest

from conf.settings import Rules as RuleSettings
from conf.settings import Settings, SettingsError
from streaming.queries.rulebook import rulebook
from tests.support.rules import default_rules
from udfs.alerts.rulebook import CANARY_CLUSTER, Rulebook
from udfs.groups.plan import RECOMPUTED

SECRET = "hunter2-very-secret"  # noqa: S105  # the very word that must never be printed


def write_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = tmp_path / "site.toml"
    path.write_text(text)
    monkeypatch.setenv("BALANCEWATCH_CONFIG", str(path))


def error_of(**flags: Any) -> str:
    with pytest.raises(SettingsError) as error:
        Settings.load(**flags)
    return str(error.value)


def test_the_defaults_load() -> None:
    settings = Settings.load()
    assert settings.kafka.bootstrap_servers == ""
    assert settings.kafka.partitions["rocketmq.pulls"] == 1
    assert settings.queries.max_offsets_per_trigger == 1_000_000
    assert settings.paths.warehouse == Path("warehouse")


def test_the_canary_has_the_default_rules_and_every_other_cluster_the_set_ones() -> None:
    book = rulebook(Settings.load(rules={"settle_ms": 7, "kinds": {"*": {"is_enabled": False}}}))
    assert rulebook(Settings.load()) == Rulebook(default_rules())
    assert (book.base.settle_ms, book.base.of_kind("split_view").is_enabled) == (7, False)
    assert book.of(CANARY_CLUSTER) == default_rules()


def test_the_allowed_strategies_can_be_recomputed() -> None:
    for strategy in RECOMPUTED:
        assert Settings.load(rules={"allocate_message_queue_strategy": strategy})
    assert error_of(rules={"allocate_message_queue_strategy": "CONFIG"})


def test_rules_have_no_defaults_of_their_own_in_the_settings() -> None:
    assert all(field.is_required() for field in RuleSettings.model_fields.values())


@pytest.mark.parametrize(
    ("name", "value", "path", "expected"),
    [
        ("BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS", "k1:9092,k2:9092", "kafka.bootstrap_servers", "k1:9092,k2:9092"),
        ("BALANCEWATCH_PATHS__WAREHOUSE", "/var/lib/bw", "paths.warehouse", Path("/var/lib/bw")),
        ("BALANCEWATCH_RULES__PULL_SILENCE_MS", "60000", "rules.pull_silence_ms", 60_000),
        ("BALANCEWATCH_COLLECTOR__PROBE", "true", "collector.probe", True),
        ("BALANCEWATCH_COLLECTOR__GROUPS", '["a", "b"]', "collector.groups", ["a", "b"]),
        ("BALANCEWATCH_KAFKA__OPTIONS", '{"security.protocol": "SSL"}', "kafka.options", {"security.protocol": "SSL"}),
    ],
)
def test_the_environment_overrides_one_key(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, path: str, expected: Any
) -> None:
    monkeypatch.setenv(name, value)
    section, _, key = path.partition(".")
    settings = Settings.load()
    assert getattr(getattr(settings, section), key) == expected
    assert settings.rules.settle_ms == 80_000


def test_a_named_file_overrides_only_the_keys_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_config(
        tmp_path, monkeypatch, '[kafka]\nbootstrap_servers = "file:9092"\npartitions = {"rocketmq.pulls" = 6}\n'
    )
    settings = Settings.load()
    assert settings.kafka.bootstrap_servers == "file:9092"
    assert settings.kafka.partitions["rocketmq.pulls"] == 6
    assert settings.kafka.partitions["rocketmq.send_latencies"] == 2
    assert settings.kafka.replication_factor == 1


def test_flags_win_over_the_environment_and_that_over_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_config(
        tmp_path, monkeypatch, '[kafka]\nbootstrap_servers = "file:1"\n[queries]\ntasks = 2\n[log]\nlevel = "ERROR"\n'
    )
    monkeypatch.setenv("BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS", "env:1")
    monkeypatch.setenv("BALANCEWATCH_QUERIES__TASKS", "3")
    settings = Settings.load(kafka={"bootstrap_servers": "flag:1"})
    assert (settings.kafka.bootstrap_servers, settings.queries.tasks, settings.log.level) == ("flag:1", 3, "ERROR")
    assert settings.kafka.retention_hours == 168


def test_a_missing_config_file_is_reported_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BALANCEWATCH_CONFIG", "/nowhere/site.toml")
    assert error_of() == "BALANCEWATCH_CONFIG names '/nowhere/site.toml', which is not a file"


@pytest.mark.parametrize("value", ["s3a://bucket/tables", Path("hdfs:/namenode/tables")], ids=str)
def test_a_url_is_refused_as_a_path(value: str | Path) -> None:
    with pytest.raises(SettingsError, match=r"paths\.warehouse: is a URL; give a folder, or s3://bucket/prefix"):
        Settings.load(paths={"warehouse": value})


def test_settings_cannot_be_changed() -> None:
    settings = Settings.load()
    with pytest.raises(ValueError, match="frozen"):
        settings.queries.tasks = 9


@pytest.mark.parametrize("key", ["acl_access_key", "acl_secret_key"])
def test_a_secret_is_read_and_never_shown(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv(f"BALANCEWATCH_COLLECTOR__{key.upper()}", SECRET)
    settings = Settings.load()
    assert getattr(settings.collector, key).get_secret_value() == SECRET
    assert SECRET not in repr(settings) + str(settings) + repr(settings.collector) + settings.model_dump_json()


@pytest.mark.parametrize(
    ("section", "key"), [("kafka", "sasl.jaas.config"), ("spark", "spark.hadoop.fs.s3a.secret.key")]
)
def test_options_are_read_and_never_shown(section: str, key: str) -> None:
    settings = Settings.load(**{section: {"options": {key: SECRET}}})
    assert getattr(settings, section).options[key] == SECRET
    assert SECRET not in repr(settings) + str(settings) + repr(getattr(settings, section))


@pytest.mark.parametrize(
    "flags",
    [
        {"collector": {"acl_secret_key": [SECRET]}},
        {"kafka": {"options": SECRET}},
        {"kafka": {"options": {"sasl.jaas.config": [SECRET]}}},
        {"kafka": {"options": {"sasl.jaas.config": SECRET}, "replication_factor": 0}},
        {"collector": {"acl_secret_key": SECRET, "timeout_ms": 0}},
        {"collector": {"acl_secret": SECRET}},
        {"collector": {"acl_access_key": [SECRET]}},
        {"collector": f"acl_secret_key={SECRET}"},
        {"kafka": f"sasl.jaas.config={SECRET}"},
    ],
    ids=range(9),
)
def test_an_error_never_shows_a_secret(flags: dict[str, Any]) -> None:
    assert SECRET not in error_of(**flags)
