"""The `[[mutes]]` of the settings: what is taken."""

import json
from pathlib import Path
from typing import Any

import pytest

from conf.settings import Settings

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
