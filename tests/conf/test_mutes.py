"""The `[[mutes]]` of the settings: what is taken, and what is refused in which words."""

import json
from pathlib import Path
from typing import Any

import pytest

from conf.settings import Settings, SettingsError

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


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (
            {"to": "22:00"},
            "mutes[0].to = '22:00': must differ from from = 22:00; to mute a kind permanently, set "
            "is_enabled = false in rules.kinds or an override",
        ),
        ({"from": "24:00"}, 'mutes[0].from = \'24:00\': give a time of day from "00:00" to "23:59"'),
        ({"from": "T2200"}, 'mutes[0].from = \'T2200\': give a time of day from "00:00" to "23:59"'),
        ({"to": "06:00:30"}, 'mutes[0].to = \'06:00:30\': give a time of day from "00:00" to "23:59"'),
        ({"to": 6}, 'mutes[0].to = 6: give a time of day from "00:00" to "23:59"'),
        (
            {"days": ["mon", "tues"]},
            "mutes[0].days[1] = 'tues': input should be 'mon', 'tue', 'wed', 'thu', 'fri', 'sat' or 'sun'; "
            "did you mean tue?",
        ),
        ({"days": []}, "mutes[0].days = []: "),
        (
            {"time_zone": "Asia/Shanghei"},
            "mutes[0].time_zone = 'Asia/Shanghei': give the name of an IANA time zone; did you mean Asia/Shanghai?",
        ),
        ({"time_zone": "Asia"}, "mutes[0].time_zone = 'Asia': give the name of an IANA time zone"),
        ({"time_zone": "/etc/passwd"}, "mutes[0].time_zone = '/etc/passwd': give the name of an IANA time zone"),
        ({"match": {}}, 'mutes[0].match = {}: name a label; { cluster = "*" } covers everything'),
        ({"match": {"group": "x"}}, "mutes[0].match.group = 'group': "),
        ({"until": "07:00"}, "mutes[0].until is not a setting; mutes[0] has name, match, days, from, to, time_zone"),
    ],
)
def test_a_mute_that_cannot_be_used_is_refused_with_key_and_value(keys: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError) as error:
        Settings.load(mutes=[NIGHT | keys])
    assert str(error.value).startswith(sentence)
