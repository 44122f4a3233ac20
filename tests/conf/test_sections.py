"""The sections `[metrics]` and `[maintain]`: their defaults, and their error messages."""

from typing import Any, get_args

import pytest

from conf.settings import Settings, SettingsError, TableName
from schemas.tables import TABLES

NEEDED = "for which readers need the files"
*FIRST, LAST = map(repr, get_args(TableName))
KNOWN = f"{', '.join(FIRST)} or {LAST}"


def test_the_tables_are_those_of_the_contracts_and_each_has_a_default() -> None:
    assert set(get_args(TableName)) == set(TABLES)
    assert set(Settings.load().maintain.retention_days) == set(TABLES)


def test_the_days_of_one_table_leave_the_others_as_they_are() -> None:
    before = Settings.load().maintain.retention_days
    changed = Settings.load(maintain={"retention_days": {"quarantine": 7}}).maintain.retention_days
    assert changed == {**before, "quarantine": 7}


@pytest.mark.parametrize(
    ("section", "keys", "sentence"),
    [
        ("maintain", {"vacuum_hours": 24}, f"vacuum_hours = 24: must not be below reader_hours = 168, {NEEDED}"),
        ("maintain", {"reader_hours": 200}, f"vacuum_hours = 168: must not be below reader_hours = 200, {NEEDED}"),
        ("maintain", {"retention_days": {"alerts": -1}}, "retention_days.alerts = -1: give an integer from 0 to 36500"),
        (
            "maintain",
            {"retention_days": {"alert": 1}},
            f"retention_days.alert = 'alert': input should be {KNOWN}; did you mean alerts?",
        ),
        ("maintain", {"min_files": 1}, "min_files = 1: give an integer from 2 to 1000000"),
        ("maintain", {"target_file_mb": 0}, "target_file_mb = 0: give an integer from 1 to 4096"),
        ("metrics", {"port": 70_000}, "port = 70000: give an integer from 0 to 65535"),
        ("metrics", {"max_groups": 0}, "max_groups = 0: give an integer from 1 to 100000"),
        (
            "metrics",
            {"unready_after_seconds": 120, "unhealthy_after_seconds": 60},
            "unhealthy_after_seconds = 60: must not be below unready_after_seconds = 120",
        ),
        ("metrics", {"unready_after_seconds": 5}, "unready_after_seconds = 5: give a number from 15 to 86400"),
        ("metrics", {"token": "x"}, "token is not a setting; did you mean metrics.token_env?"),
    ],
)
def test_an_invalid_value_is_refused_with_key_and_value(section: str, keys: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.load(**{section: keys})
    assert str(refused.value) == f"{section}.{sentence}"


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
