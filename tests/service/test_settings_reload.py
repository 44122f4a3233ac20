"""Which changes of the settings' files are taken while the service runs, and what is said of them, once."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from conf.settings import Settings
from streaming.service.settings_reload import LOOK_SECONDS, SettingsReload, list_changes

Logs = list[Any]


@pytest.fixture(autouse=True)
def _nothing_is_set_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("BALANCEWATCH_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rules.toml"
    path.write_text("settle_ms = 1\n")
    return path


@pytest.fixture
def watch(file: Path) -> SettingsReload:
    return SettingsReload(Settings.load(rules={"file": str(file)}, kafka={"bootstrap_servers": "k:1"}))


@pytest.fixture
def logs() -> Iterator[Logs]:
    with capture_logs() as captured:
        yield captured


def look_twice(watch: SettingsReload) -> Settings | None:
    """A change counts once it was seen at two looks."""
    return watch.look() or watch.look()


def taken(watch: SettingsReload) -> Settings:
    settings = look_twice(watch)
    assert settings is not None
    return settings


def test_nothing_is_said_while_nothing_changes(watch: SettingsReload, logs: Logs) -> None:
    assert [watch.look() for _ in range(4)] == [None] * 4
    assert logs == []


def test_a_changed_rule_is_taken_with_the_flags_kept_and_both_values_are_logged(
    watch: SettingsReload, file: Path, logs: Logs
) -> None:
    file.write_text("settle_ms = 2\n[kinds.starved_queue]\npending_ms = 5\n")
    settings = taken(watch)
    assert (settings.rules.settle_ms, settings.kafka.bootstrap_servers) == (2, "k:1")
    assert [(line["key"], line["before"], line["after"]) for line in logs] == [
        ("rules.kinds.starved_queue.pending_ms", None, 5),
        ("rules.settle_ms", 1, 2),
    ]
    assert look_twice(watch) is None


def test_a_file_that_is_being_written_is_left_alone(watch: SettingsReload, file: Path, logs: Logs) -> None:
    watch.look()
    for text in ("settle", "settle_ms =", "settle_ms = 3\n"):
        file.write_text(text)
        assert watch.look() is None
    assert logs == []
    settings = watch.look()
    assert settings is not None
    assert settings.rules.settle_ms == 3


def test_an_invalid_file_is_reported_once_and_again_only_when_it_changes(
    watch: SettingsReload, file: Path, logs: Logs
) -> None:
    for value in (-1, -2):
        file.write_text(f"settle_ms = {value}\n")
        assert [watch.look() for _ in range(4)] == [None] * 4
    assert [line["log_level"] for line in logs] == ["error", "error"]
    for value, line in zip((-1, -2), logs, strict=True):
        assert f"rules.settle_ms = {value}: give an integer from 1 to 604800000" in line["reason"]
    file.write_text("settle_ms = 4\n")
    taken(watch)
    assert logs[-1]["before"] == 1


def test_a_comment_and_a_file_that_vanishes_change_nothing(watch: SettingsReload, file: Path, logs: Logs) -> None:
    file.write_text("settle_ms = 1 # as before\n")
    assert (look_twice(watch), logs) == (None, [])
    file.unlink()
    assert look_twice(watch) is None
    assert "No such file" in logs[0]["reason"]


def test_a_change_between_loading_and_watching_is_not_missed(file: Path) -> None:
    settings = Settings.load(rules={"file": str(file)})
    file.write_text("settle_ms = 2\n")
    assert taken(SettingsReload(settings)).rules.settle_ms == 2


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = tmp_path / "site.toml"
    site.write_text("")
    monkeypatch.setenv("BALANCEWATCH_CONFIG", str(site))
    return site


def test_what_needs_a_restart_is_named_without_its_values(site: Path, logs: Logs) -> None:
    watch = SettingsReload(Settings.load())
    site.write_text('[kafka]\noptions = {"sasl.jaas.config" = "hunter2"}\n[rules]\nsettle_ms = 9\n')
    settings = taken(watch)
    assert (settings.rules.settle_ms, settings.kafka.options) == (9, {})
    assert logs[0] == {"event": "settings changed, restart required", "sections": ["kafka"], "log_level": "warning"}
    assert "hunter2" not in str(logs)


def test_whom_to_describe_is_taken_and_the_keys_are_named_without_their_values(site: Path, logs: Logs) -> None:
    watch = SettingsReload(Settings.load())
    receiver = '{name = "hook", type = "webhook", url = "http://h/hunter2"}'
    route = '{name = "all", receivers = ["hook"]}'
    site.write_text(
        f"[oncall]\nmax_firing_per_kind = 7\nresend_seconds = 61\nreceivers = [{receiver}]\nroutes = [{route}]\n"
    )
    settings = taken(watch)
    assert (settings.oncall.max_firing_per_kind, settings.oncall.routes[0].receivers) == (7, ("hook",))
    assert settings.oncall.resend_seconds == Settings.load().oncall.resend_seconds - 1
    assert [(line["event"], line.get("keys") or line.get("sections")) for line in logs] == [
        ("settings changed, restart required", ["oncall"]),
        ("notification settings changed", ["oncall.max_firing_per_kind", "oncall.receivers", "oncall.routes"]),
    ]
    assert "hunter2" not in str(logs)
    assert look_twice(watch) is None


def test_changed_mutes_and_labels_are_taken(site: Path, logs: Logs) -> None:
    watch = SettingsReload(Settings.load())
    mute = '[[mutes]]\nmatch = { kind = "group_offline" }\nfrom = "22:00"\nto = "06:00"\n'
    site.write_text(f'{mute}[[labels]]\nset = {{ team = "a" }}\n')
    settings = taken(watch)
    assert (len(settings.mutes), settings.label_rules) == (1, [({}, {"team": "a"})])
    assert [(line["event"], line["keys"]) for line in logs] == [("notification settings changed", ["labels", "mutes"])]
    assert look_twice(watch) is None


def test_a_rules_file_that_is_named_later_is_watched_though_nothing_differed_at_first(site: Path, file: Path) -> None:
    site.write_text("[rules]\nsettle_ms = 1\n")
    watch = SettingsReload(Settings.load())
    site.write_text(f'[rules]\nsettle_ms = 1\nfile = "{file}"\n')
    assert look_twice(watch) is None
    file.write_text("settle_ms = 3\n")
    assert taken(watch).rules.settle_ms == 3


def test_looks_are_seconds_apart(watch: SettingsReload, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([LOOK_SECONDS / 2, LOOK_SECONDS, LOOK_SECONDS, LOOK_SECONDS * 1.5, LOOK_SECONDS * 3])
    looked: list[None] = []
    monkeypatch.setattr(watch, "_looked", 0.0)
    monkeypatch.setattr("streaming.service.settings_reload.time.monotonic", lambda: next(times))
    monkeypatch.setattr(watch, "look", lambda: looked.append(None))
    for _ in range(2):
        watch.look_now_and_then()
    assert len(looked) == 1


def test_overrides_are_compared_by_their_place() -> None:
    before = Settings.load(rules={"overrides": [{"name": "a", "settle_ms": 1}]})
    after = Settings.load(rules={"overrides": [{"name": "a", "settle_ms": 2}, {"cluster": "b"}]})
    assert list_changes(before, after) == [
        ("rules.overrides[0].settle_ms", 1, 2),
        ("rules.overrides[1].cluster", None, "b"),
        ("rules.overrides[1].consumer_group", None, "*"),
    ]
