"""The `[metrics]` of the settings: what is refused, in which words."""

from typing import Any

import pytest

from conf.settings import Settings, SettingsError


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"port": 70_000}, "metrics.port = 70000: give an integer from 0 to 65535"),
        ({"max_groups": 0}, "metrics.max_groups = 0: give an integer from 1 to 100000"),
        (
            {"unready_after_seconds": 120, "unhealthy_after_seconds": 60},
            "metrics.unhealthy_after_seconds = 60: must not be below unready_after_seconds = 120",
        ),
        ({"unready_after_seconds": 5}, "metrics.unready_after_seconds = 5: give a number from 15 to 86400"),
        ({"token": "x"}, "metrics.token is not a setting; did you mean metrics.token_env?"),
    ],
)
def test_a_value_that_cannot_be_used_is_reported_with_its_key(keys: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError) as error:
        Settings.load(metrics=keys)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("10.0.0.5", False), ("host", False)],  # noqa: S104  # what is asked about
)
def test_the_loopback_is_known_by_name_and_address(host: str, is_loopback: bool) -> None:
    assert Settings.load(metrics={"host": host}).metrics.is_loopback is is_loopback


def test_out_of_the_box_only_this_machine_may_ask() -> None:
    assert Settings.load().metrics.is_loopback
