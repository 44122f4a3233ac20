"""The rules as data: allowed keys, error messages, and the order of the files."""

from pathlib import Path
from typing import Any

import pytest

from conf.rules import KindRules, Override, Scope, Thresholds
from conf.settings import Settings, SettingsError
from streaming.queries.rulebook import rulebook
from udfs.alerts.kinds import KIND_FACTS
from udfs.alerts.rules import OF_ALL


def load(**rules: Any) -> Settings:
    return Settings.load(rules=rules)


def error_of(**rules: Any) -> str:
    with pytest.raises(SettingsError) as error:
        load(**rules)
    assert "\n" not in str(error.value)
    return str(error.value)


def load_file(tmp_path: Path, text: str, **more: Any) -> Settings:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    return load(file=str(path), **more)


def error_of_file(tmp_path: Path, text: str) -> str:
    with pytest.raises(SettingsError) as error:
        load_file(tmp_path, text)
    assert str(tmp_path / "rules.toml") in str(error.value)
    return str(error.value).removeprefix(f"rules.file = '{tmp_path / 'rules.toml'}': ")


def test_the_defaults_set_every_key_for_all_kinds() -> None:
    assert Settings.load().rules.kinds[OF_ALL].model_fields_set == set(KindRules.model_fields)


def test_an_override_may_set_every_key_of_the_rules() -> None:
    assert set(Override.model_fields) == {*Scope.model_fields, *Thresholds.model_fields, "kinds"}


@pytest.mark.parametrize(
    ("text", "ms"), [("500ms", 500), ("45s", 45_000), ("2m", 120_000), ("2 m", 120_000), ("1h", 3_600_000), ("7", 7)]
)
def test_a_duration_may_have_a_unit(text: str, ms: int) -> None:
    kinds = {"starved_queue": {"pending_ms": text}}
    rules = Settings.load(
        rules={"settle_ms": text, "kinds": kinds, "overrides": [{"pull_silence_ms": text, "kinds": kinds}]}
    ).rules
    (_, override) = rules.scopes()[0]
    assert (rules.settle_ms, rules.kinds["starved_queue"].pending_ms) == (ms, ms)
    assert override == {"pull_silence_ms": ms, "kinds": {"starved_queue": {"pending_ms": ms}}}


def test_every_setting_in_ms_takes_a_duration() -> None:
    settings = Settings.load(queries={"rest_ms": "2s", "trigger_ms": "1m"}, collector={"timeout_ms": "5s"})
    assert (settings.queries.rest_ms, settings.queries.trigger_ms, settings.collector.timeout_ms) == (
        2_000,
        60_000,
        5_000,
    )


def test_an_unknown_kind_is_reported_with_all_kinds() -> None:
    error = error_of(kinds={"starved": {"pending_ms": 1}})
    assert error.startswith("rules.kinds.starved = 'starved': ")
    assert all(f"'{kind}'" in error for kind in (OF_ALL, *KIND_FACTS))
    assert "did you mean starved_queue?" in error_of(kinds={"starved_queu": {"pending_ms": 1}})
    assert "rules.overrides[0].kinds.starved = " in error_of(overrides=[{"kinds": {"starved": {}}}])


def test_an_error_stays_short_whatever_the_value() -> None:
    error = error_of(overrides=[{}] * 501)
    assert error.startswith("rules.overrides = ")
    assert len(error) < 500


def test_a_kind_keeps_what_a_line_for_it_does_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BALANCEWATCH_RULES__KINDS", '{"duplicate_client_id": {"pending_ms": 5000}}')
    of_kind = rulebook(Settings.load()).base.of_kind("duplicate_client_id")
    assert (of_kind.pending_ms, of_kind.pending_evaluations, of_kind.recovering_ms) == (5_000, 1, 30_000)


def test_a_rules_file_wins_over_every_other_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BALANCEWATCH_RULES__SETTLE_MS", "1")
    text = "settle_ms = 2\n[kinds.starved_queue]\npending_ms = 3\n"
    settings = load_file(tmp_path, text, settle_ms=4, pull_silence_ms=5)
    assert (settings.rules.settle_ms, settings.rules.pull_silence_ms) == (2, 5)
    assert rulebook(settings).base.of_kind("starved_queue").pending_ms == 3
    assert rulebook(settings).base.of_kind("broker_evicted").pending_evaluations == 1


def test_the_overrides_of_a_rules_file_come_after_those_of_the_settings(tmp_path: Path) -> None:
    settings = load_file(tmp_path, '[[overrides]]\nname = "late"\n', overrides=[{"name": "early", "settle_ms": 7}])
    assert [scope.name for scope, _ in settings.rules.scopes()] == ["early", "late"]
    assert rulebook(settings).of("c", "g").settle_ms == 7


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("settle_ms = -1\n", "rules.settle_ms = -1: "),
        ("[rules]\nsettle_ms = 1\n", "rules is not allowed in a rules file; write the keys without the [rules] header"),
        ('file = "other.toml"\n', "file = 'other.toml' is not allowed in a rules file"),
        ("settle_ms =\n", "not valid TOML: "),
        ("overrides = 5\n", "rules.overrides = 5: "),
        ("kinds = 5\n", "rules.kinds = 5: "),
    ],
    ids=["value", "prefix", "file", "toml", "overrides", "kinds"],
)
def test_a_wrong_rules_file_is_reported_with_its_name(tmp_path: Path, text: str, sentence: str) -> None:
    assert error_of_file(tmp_path, text).startswith(sentence)


def test_a_missing_rules_file_is_reported(tmp_path: Path) -> None:
    assert error_of(file=str(tmp_path / "none.toml")).endswith("; give the path of a TOML file")


def test_settings_loaded_again_keep_the_flags_and_take_what_changed_in_the_files(tmp_path: Path) -> None:
    settings = load_file(tmp_path, "settle_ms = 1\n", pull_silence_ms=2)
    (tmp_path / "rules.toml").write_text("settle_ms = 3\n")
    again = settings.load_again()
    assert (again.rules.settle_ms, again.rules.pull_silence_ms) == (3, 2)
    assert settings.rules.settle_ms == 1
    assert tmp_path / "rules.toml" in settings.files()
