"""Sources of the settings: a wrong key in a variable or a file is named, with the nearest existing key."""

from collections.abc import Callable
from pathlib import Path

import pytest

from conf.settings import Settings, SettingsError

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


def error_of() -> str:
    with pytest.raises(SettingsError) as error:
        Settings.load()
    assert "\n" not in str(error.value)
    assert SECRET not in str(error.value)
    return str(error.value)


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
        ("FOO", "foo is not a setting; there are kafka, paths, spark, "),
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
        ("[quality]\nobserve_every = 0\n", "quality.observe_every is not a setting; quality has every_batches, "),
        ("[kafak]\nx = 1\ny = 2\n", "kafak is not a setting; did you mean kafka?"),
        ("[rules]\npull_silence = 1\n", "rules.pull_silence is not a setting; did you mean rules.pull_silence_ms?"),
        ("[queries]\ntasks = -1\n", "queries.tasks = -1: give an integer from 0 to 10000"),
        (
            "[[rules.overrides]]\nsettle = 1\n",
            "rules.overrides[0].settle is not a setting; did you mean rules.overrides",
        ),
        ("[rules]\nflap_high = 0.05\n", "rules.flap_low = 0.1: must be below flap_high = 0.05 (flap_high is"),
        (
            "[kafka.partitions]\n'rocketmq.pull' = 1\n",
            "kafka.partitions.rocketmq.pull = 'rocketmq.pull': input should be 'rocketmq.",
        ),
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
