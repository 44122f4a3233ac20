"""The `[oncall]` and `[[mutes]]` of the settings: what is taken and refused; no secret is shown."""

import json
from pathlib import Path
from typing import Any

import pytest

from conf.oncall import read_secret
from conf.settings import Settings, SettingsError

SECRET = "hunter2-very-secret"  # noqa: S105  # the very word that must never be printed

PAGER = {"name": "pager", "type": "pagerduty", "routing_key_env": "PD_KEY"}
REST = {"name": "rest", "receivers": ["pager"]}


def error_of(**oncall: Any) -> str:
    with pytest.raises(SettingsError) as error:
        Settings.load(oncall=oncall)
    return str(error.value)


def test_a_route_takes_one_glob_or_several() -> None:
    match = {"cluster": "prod-*", "severity": ["critical", "error"]}
    oncall = Settings.load(
        oncall={"receivers": [PAGER], "routes": [{"name": "p", "match": match, "receivers": ["pager"]}, REST]}
    ).oncall
    assert oncall.routes[0].match == {"cluster": ("prod-*",), "severity": ("critical", "error")}
    assert oncall.routes[0].continue_ is False


def test_a_route_and_a_mute_may_match_a_label_that_the_settings_set() -> None:
    match, labels = {"team": "payments"}, [{"match": {"consumer_group": "pay*"}, "set": {"team": "payments"}}]
    route = {"name": "p", "match": match, "receivers": ["pager"]}
    oncall = {"receivers": [PAGER], "routes": [route, REST]}
    settings = Settings.load(oncall=oncall, mutes=[NIGHT | {"match": match}], labels=labels)
    assert settings.oncall.routes[0].match == settings.mutes[0].match == {"team": ("payments",)}
    assert settings.label_rules == [({"consumer_group": ("pay*",)}, {"team": "payments"})]
    with pytest.raises(SettingsError, match=r"oncall.routes\[0\].match.team = 'team': input should be"):
        Settings.load(oncall=oncall)


def test_the_settings_do_not_show_an_address_either() -> None:
    hook = {"name": "h", "type": "webhook", "url": f"http://x/{SECRET}"}
    settings = Settings.load(oncall={"receivers": [hook], "routes": [{"name": "r", "receivers": ["h"]}]})
    assert SECRET not in repr(settings) + str(settings.oncall)


@pytest.mark.parametrize(
    "secret", ["e93facc04764012d7bfb002500d5d1a6", "SECabcdef", "E93FACC04764012D7BFB002500D5D1A6"]
)
def test_a_secret_in_the_place_of_a_variables_name_is_not_shown(secret: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_secret("oncall.receivers[0].routing_key_env", secret)
    assert secret not in str(error.value)
    assert "oncall.receivers[0].routing_key_env must name an environment variable" in str(error.value)
    pasted = {"name": "p", "type": "pagerduty", "routing_key_env": f"{secret}-"}
    assert secret not in error_of(receivers=[pasted], routes=[REST])


def test_a_secret_is_read_from_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PD_KEY", f" {SECRET}\n")
    assert read_secret("key", "PD_KEY") == SECRET
    for empty in ("", "  "):
        monkeypatch.setenv("PD_KEY", empty)
        with pytest.raises(SettingsError, match="key = 'PD_KEY': the environment variable PD_KEY is empty"):
            read_secret("key", "PD_KEY")


NIGHT: dict[str, Any] = {"match": {"consumer_group": "batch-*"}, "from": "22:00", "to": "06:00"}


def test_a_mute_is_every_day_and_in_utc_unless_it_says_otherwise() -> None:
    (mute,) = Settings.load(mutes=[NIGHT]).mutes
    assert (mute.name, len(mute.days), mute.time_zone) == (None, 7, "UTC")


def test_there_is_no_mute_by_default() -> None:
    assert Settings.load().mutes == ()


def test_a_variable_holds_mutes_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BALANCEWATCH_MUTES", json.dumps([NIGHT, NIGHT]))
    assert len(Settings.load().mutes) == 2


def test_a_local_time_of_toml_is_a_time_of_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[[mutes]]\nmatch = { kind = "group_offline" }\nfrom = %s\nto = %s\n'
    mutes = []
    for given in (("22:00:00", "06:30:00"), ('"22:00"', '"06:30"')):
        (tmp_path / "site.toml").write_text(text % given)
        monkeypatch.setenv("BALANCEWATCH_CONFIG", str(tmp_path / "site.toml"))
        mutes += Settings.load().mutes
    assert mutes[0] == mutes[1]
