"""`[maintain]`: its tables are the contracts', and no setting takes a file from a reader that was promised it."""

from typing import get_args

import pytest

from conf.settings import Settings, SettingsError, TableName
from schemas.tables import TABLES


def test_the_tables_are_those_of_the_contracts_and_each_has_a_default() -> None:
    assert set(get_args(TableName)) == set(TABLES)
    assert set(Settings.load().maintain.retention_days) == set(TABLES)


def test_one_tables_days_leave_the_others_as_they_are() -> None:
    before = Settings.load().maintain.retention_days
    assert Settings.load(maintain={"retention_days": {"quarantine": 7}}).maintain.retention_days == {
        **before,
        "quarantine": 7,
    }


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"vacuum_hours": 24}, "maintain.vacuum_hours = 24: must not be below reader_hours = 168"),
        ({"reader_hours": 200}, "maintain.vacuum_hours = 168: must not be below reader_hours = 200"),
        (
            {"retention_days": {"alerts": -1}},
            "maintain.retention_days.alerts = -1: give an integer from 0 to 36500",
        ),
        ({"retention_days": {"alert": 1}}, "maintain.retention_days.alert = 'alert': input should be 'alerts', "),
        ({"min_files": 1}, "maintain.min_files = 1"),
        ({"target_file_mb": 0}, "maintain.target_file_mb = 0"),
    ],
)
def test_what_cannot_be_used_is_refused_with_key_and_value(keys: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingsError, match="maintain") as refused:
        Settings.load(maintain=keys)
    assert sentence in str(refused.value)
