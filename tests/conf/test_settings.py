"""Settings: the order of the sources, and error messages with key, value, source and the nearest existing key."""

from collections.abc import Callable
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


Site = Callable[[str | bytes], Path]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    def write(text: str | bytes) -> Path:
        path = tmp_path / "site.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        monkeypatch.setenv("BALANCEWATCH_CONFIG", str(path))
        return path

    return write


def error_of(**flags: Any) -> str:
    with pytest.raises(SettingsError) as error:
        Settings.load(**flags)
    assert "\n" not in str(error.value)
    assert SECRET not in str(error.value)
    return str(error.value)


def test_the_canary_has_the_default_rules_and_every_other_cluster_the_set_ones() -> None:
    book = rulebook(Settings.load(rules={"settle_ms": 7, "kinds": {"*": {"is_enabled": False}}}))
    assert rulebook(Settings.load()) == Rulebook(default_rules())
    assert (book.base.settle_ms, book.base.of_kind("split_view").is_enabled) == (7, False)
    assert book.of(CANARY_CLUSTER) == default_rules()


def test_the_allowed_strategies_can_be_recomputed() -> None:
    for strategy in RECOMPUTED:
        assert Settings.load(rules={"allocate_message_queue_strategy": strategy})


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


def test_flags_win_over_the_environment_and_that_over_files_key_by_key(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site(
        '[kafka]\nbootstrap_servers = "file:1"\npartitions = {"rocketmq.pulls" = 6}\n'
        '[queries]\ntasks = 2\n[log]\nlevel = "ERROR"\n'
    )
    monkeypatch.setenv("BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS", "env:1")
    monkeypatch.setenv("BALANCEWATCH_QUERIES__TASKS", "3")
    settings = Settings.load(kafka={"bootstrap_servers": "flag:1"})
    assert (settings.kafka.bootstrap_servers, settings.queries.tasks, settings.log.level) == ("flag:1", 3, "ERROR")
    assert (settings.kafka.partitions["rocketmq.pulls"], settings.kafka.partitions["rocketmq.send_latencies"]) == (6, 2)
    assert settings.kafka.retention_hours == 168


def test_a_missing_config_file_is_reported_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BALANCEWATCH_CONFIG", "/nowhere/site.toml")
    assert error_of() == "BALANCEWATCH_CONFIG names '/nowhere/site.toml', which is not a file"


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
        {"oncall": {"receivers": [{"name": "h", "type": "webhook", "url": f"ftp://{SECRET}"}]}},
        {"oncall": {"receivers": [{"name": "h", "type": "webhook", "url": [f"http://{SECRET}"]}]}},
        {"oncall": {"receivers": [{"name": "h", "type": "webhook", "url": f"http://x/{SECRET}" + "y" * 2_000}]}},
        {"oncall": {"receivers": [{"name": "am", "type": "alertmanager", "urls": [f"http://{SECRET}@a", "a"]}]}},
        {"oncall": {"receivers": [{"name": "am", "type": "alertmanager", "urls": {"a": SECRET}}]}},
        {"oncall": {"receivers": [{"name": "h", "type": "hook", "url": f"http://{SECRET}"}]}},
        {"oncall": {"receivers": {"name": "h", "type": "webhook", "url": SECRET}}},
        {"oncall": {"receivers": [SECRET]}},
    ],
    ids=range(17),
)
def test_an_error_never_shows_a_secret(flags: dict[str, Any]) -> None:
    assert error_of(**flags)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "KAFKA__BOOTSTRAP_SERVER",
            "kafka.bootstrap_server is not a setting; did you mean {}KAFKA__BOOTSTRAP_SERVERS?",
        ),
        ("KAFKA_BOOTSTRAP_SERVERS", "kafka_bootstrap_servers is not a setting; did you mean {}KAFKA__BOOTSTRAP_SERVER"),
        ("KAFKA__TRIGGER_MS", "kafka.trigger_ms is not a setting; did you mean {}QUERIES__TRIGGER_MS?"),
        ("BORD__PORT", "bord.port is not a setting; did you mean {}BOARD__PORT?"),
        ("ONCAL__ENABLED", "oncal.enabled is not a setting; did you mean {}ONCALL__ENABLED?"),
        ("BORD_TOKEN", "bord_token is not a setting; did you mean {}BOARD_TOKEN?"),
        ("FOO", "foo is not a setting; there are language, kafka, paths, "),
        ("CANARY__COLOUR", "canary.colour is not a setting; canary has interval_seconds, slo_seconds"),
    ],
)
def test_an_unknown_variable_is_reported_with_the_nearest_one(
    name: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"BALANCEWATCH_{name}", SECRET)
    error = error_of()
    assert error.startswith(sentence.format("BALANCEWATCH_"))
    assert error.endswith(f" (set by BALANCEWATCH_{name})")


def test_every_unknown_variable_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ONCAL__ENABLED", "ONCAL__LIMIT", "FOO"):
        monkeypatch.setenv(f"BALANCEWATCH_{name}", "1")
        assert f"(set by BALANCEWATCH_{name})" in error_of()


def test_a_variable_that_a_setting_names_is_allowed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BALANCEWATCH_BOARD_TOKEN", SECRET)
    Settings.load()
    monkeypatch.setenv("BALANCEWATCH_PD_KEY", f"[{SECRET}")  # no JSON
    assert "BALANCEWATCH_PD_KEY" in error_of()
    site(
        '[[oncall.receivers]]\nname = "pd"\ntype = "pagerduty"\nrouting_key_env = "BALANCEWATCH_PD_KEY"\n'
        '[[oncall.routes]]\nname = "all"\nreceivers = ["pd"]\n'
    )
    assert Settings.load().oncall.receivers[0].routing_key_env == "BALANCEWATCH_PD_KEY"


def test_the_variables_of_a_kubernetes_service_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BALANCEWATCH_BOARD_PORT", "8050")
    assert "did you mean BALANCEWATCH_BOARD__PORT? (set by BALANCEWATCH_BOARD_PORT)" in error_of()
    for service in ("BALANCEWATCH", "BALANCEWATCH_BOARD"):
        monkeypatch.setenv(f"{service}_PORT", "tcp://10.0.0.1:8050")
        for name in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT_8050_TCP", "PORT_8050_TCP_ADDR"):
            monkeypatch.setenv(f"{service}_{name}", "10.0.0.1")
    Settings.load()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[kafak]\nx = 1\ny = 2\n", "kafak is not a setting; did you mean kafka?"),
        ("[queries]\ntasks = -1\n", "queries.tasks = -1: give an integer from 0 to 10000"),
        ("[rules]\nflap_low = 0.5\n", "rules.flap_high = 0.25: must not be below flap_low = 0.5 (flap_low is"),
    ],
)
def test_a_wrong_key_is_reported_with_its_file(text: str, sentence: str, site: Site) -> None:
    path = site(text)
    error = error_of()
    assert error.startswith(sentence)
    assert error.endswith(f"set by {path})")


def test_a_wrong_value_is_reported_with_its_variable_which_wins_over_the_file(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site("[queries]\ntasks = 8\n")
    monkeypatch.setenv("BALANCEWATCH_QUERIES__TASKS", "many")
    reported = "queries.tasks = 'many': give an integer from 0 to 10000 (set by BALANCEWATCH_QUERIES__TASKS)"
    assert error_of() == reported


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[kafka\n", "not valid TOML: Expected ']' at the end of a table declaration (at line 1, column 7)"),
        (b"[kafka]\n# caf\xe9\n", "not UTF-8 (at line 2); save it as UTF-8"),
    ],
    ids=["syntax", "utf-8"],
)
def test_an_unreadable_file_is_one_sentence_with_its_name(text: str | bytes, sentence: str, site: Site) -> None:
    path = site(text)
    error = error_of()
    assert error.startswith(f"{path}: ")
    assert error.endswith(sentence)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (
            f"sasl.jaas.config={SECRET}",
            "kafka.options is not valid JSON: Expecting value: line 1 column 1 (char 0) (set by {})",
        ),
        (f'{{"a": "{SECRET}",\n}}', "kafka.options is not valid JSON: "),
        (f'["{SECRET}"]', "kafka.options: input should be a valid dictionary (set by {})"),
        (f'{{"a": ["{SECRET}"]}}', "kafka.options.a: input should be a valid string (set by {})"),
        ("", "kafka.options is not valid JSON: "),
    ],
)
def test_a_variable_with_invalid_json_is_reported_by_name_without_its_text(
    value: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BALANCEWATCH_KAFKA__OPTIONS", value)
    error = error_of()
    assert error.startswith(sentence.format("BALANCEWATCH_KAFKA__OPTIONS"))
    assert "BALANCEWATCH_KAFKA__OPTIONS" in error


def test_a_list_with_refused_entries_is_not_called_empty(site: Site) -> None:
    site('[[oncall.receivers]]\nname = "x"\ntype = "slack"\n')
    error = error_of()
    assert error.startswith("oncall.receivers[0].type = 'slack': ")
    assert "at least 1" not in error


def test_an_override_of_the_rules_file_is_counted_as_in_that_file(site: Site, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[overrides]]\nsettle_ms = 5\n[[overrides]]\nsettle_ms = 0\n")
    site(f'[rules]\nfile = "{rules}"\n[[rules.overrides]]\nsettle_ms = 4\n')
    assert error_of().startswith("rules.overrides[1].settle_ms = 0: give an integer")
    assert error_of().endswith(f"(set by {rules})")
    rules.write_bytes(b"\xff")
    assert error_of() == f"rules.file = '{rules}': not UTF-8 (at line 1); save it as UTF-8"
