"""The numbers of the settings: each is bounded on both sides, finite, and said with what is allowed."""

from collections.abc import Iterator
from typing import Any, get_origin

import pytest
from pydantic import BaseModel

from conf.rules import Override
from conf.settings import TOPICS, Settings, SettingsError
from conf.sources import Spot, is_section, names_of, spot_at
from schemas.events import EVENTS
from tests.support.offenders import assert_none


def numbers(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, Spot]]:
    for name in names_of(model):
        within: list[str | int] = [name]
        while (spot := spot_at(model, within)) is not None and get_origin(spot.type) in (dict, list, tuple):
            within.append("any" if get_origin(spot.type) is dict else 0)
        if spot is not None and is_section(spot.type):
            yield from numbers(spot.type, f"{path}{name}.")
        elif spot is not None and spot.type in (int, float):
            yield f"{path}{name}", spot


def is_bounded(spot: Spot) -> bool:
    has = {name for one in spot.bounds for name in ("ge", "gt", "le", "lt") if getattr(one, name, None) is not None}
    return bool(has & {"ge", "gt"}) and bool(has & {"le", "lt"})


def test_every_number_has_a_least_and_a_most() -> None:
    found = dict(numbers(Settings)) | dict(numbers(Override, "override."))
    assert {"kafka.partitions", "rules.kinds.pending_ms", "oncall.receivers.timeout_seconds"} <= found.keys()
    assert_none(key for key, spot in found.items() if not is_bounded(spot))


def refuses(section: str, key: str, value: Any) -> bool:
    try:
        Settings.load(**{section: {key: value}})
    except SettingsError as error:
        return str(error).startswith(f"{section}.{key} = ") and "give " in str(error)
    return False


def test_no_number_takes_what_is_not_finite_or_beyond_all_use_or_a_bool() -> None:
    keys = [tuple(key.split(".")) for key, _ in numbers(Settings) if key.count(".") == 1 and "partitions" not in key]
    flat = [(section, key) for section, key in keys if key not in ("retention_days",)]
    values = [float("inf"), float("-inf"), float("nan"), "inf", "NaN", 1e300, "1e300", 10**30, -1, True, "x"]
    assert_none(f"{one} = {value!r}" for one in flat for value in values if not refuses(*one, value))


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("spark", "driver_memory", "999999999999g"),
        ("spark", "driver_memory", "1m"),
        ("spark", "driver_memory", "1g\n"),
        ("collector", "jvm_memory", "1k"),
        ("oncall", "resend_seconds", 1e-7),
        ("oncall", "poll_seconds", 1e-9),
        ("canary", "interval_seconds", 1e-9),
        ("clock", "interval_seconds", 1e-9),
        ("kafka", "retention_hours", 10**9),
    ],
)
def test_what_would_stop_a_part_of_it_is_refused(section: str, key: str, value: Any) -> None:
    assert refuses(section, key, value)


def test_a_bool_is_no_number_in_a_table_either() -> None:
    with pytest.raises(SettingsError, match=r"kafka\.partitions\.rocketmq\.pulls = True: give an integer"):
        Settings.load(kafka={"partitions": {"rocketmq.pulls": True}})
    with pytest.raises(SettingsError, match=r"maintain\.retention_days\.alerts = False: give an integer"):
        Settings.load(maintain={"retention_days": {"alerts": False}})


def test_the_topics_that_may_have_partitions_are_those_of_events() -> None:
    assert set(TOPICS) == set(EVENTS)


@pytest.mark.parametrize("key", ["warehouse", "checkpoints", "jars"])
def test_an_empty_path_is_not_the_folder_one_stands_in(key: str) -> None:
    with pytest.raises(SettingsError, match=rf"paths\.{key} = '': is empty; give a folder"):
        Settings.load(paths={key: ""})
