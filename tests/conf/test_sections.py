"""The sections: the defaults of `[metrics]` and `[maintain]`, and the errors of all (`golden/settings.txt`)."""

import json
from pathlib import Path
from typing import get_args

import pytest

from conf.settings import Settings, SettingsError, TableName
from schemas.tables import TABLES

GOLDEN = Path(__file__).parents[1] / "golden" / "settings.txt"


def test_the_tables_are_those_of_the_contracts_and_each_has_a_default() -> None:
    assert set(get_args(TableName)) == set(TABLES)
    assert set(Settings.load().maintain.retention_days) == set(TABLES)


def test_the_days_of_one_table_leave_the_others_as_they_are() -> None:
    before = Settings.load().maintain.retention_days
    changed = Settings.load(maintain={"retention_days": {"quarantine": 7}}).maintain.retention_days
    assert changed == {**before, "quarantine": 7}


CASES = [case.splitlines() for case in GOLDEN.read_text().split("\n\n") if not case.startswith("#")]


@pytest.mark.parametrize(("settings", "sentence"), CASES, ids=[sentence.partition(" ")[0] for _, sentence in CASES])
def test_an_invalid_setting_is_refused_with_its_key_and_value_and_what_is_allowed(settings: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.load(**json.loads(settings))
    assert str(refused.value).startswith(sentence)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        *((host, True) for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost")),
        *((host, False) for host in ("0.0.0.0", "10.0.0.5", "host")),  # noqa: S104  # an example
    ],
)
def test_the_loopback_is_known_by_name_and_address_and_is_the_default(host: str, is_loopback: bool) -> None:
    assert Settings.load(metrics={"host": host}).metrics.is_loopback is is_loopback
    assert Settings.load().metrics.is_loopback
