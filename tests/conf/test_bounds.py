"""The numbers of the settings: each is bounded on both sides, finite, and said with what is allowed."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest

from conf.rules import Override
from conf.settings import Settings, SettingsError, Topic
from schemas.events import EVENTS
from tests.support.offenders import assert_none


def numbers(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and the JSON schema of each number."""
    definitions = schema.get("$defs", {})
    below = [schema.get(name) for name in ("additionalProperties", "items")] + schema.get("anyOf", [])
    for name, one in [*schema.get("properties", {}).items(), *(("", one) for one in below if one)]:
        inner = definitions[one["$ref"].rpartition("/")[2]] if "$ref" in one else one
        where = f"{path}.{name}".strip(".")
        if inner.get("type") in ("integer", "number"):
            yield where, inner
        yield from numbers({**inner, "$defs": definitions}, where)


def test_every_number_has_a_least_and_a_most() -> None:
    found = [*numbers(Settings.model_json_schema()), *numbers(Override.model_json_schema(), "override")]
    assert {"kafka.partitions", "rules.kinds.pending_ms", "oncall.receivers.timeout_seconds"} <= dict(found).keys()
    bounds = ({"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"})
    assert_none(key for key, schema in found if not all(bound & schema.keys() for bound in bounds))


def refuses(section: str, key: str, value: Any) -> bool:
    try:
        Settings.load(**{section: {key: value}})
    except SettingsError as error:
        return str(error).startswith(f"{section}.{key} = ") and "give " in str(error)
    return False


@pytest.mark.parametrize(
    "value", [float("inf"), float("-inf"), float("nan"), "inf", "NaN", 1e300, "1e300", 10**30, -1, True, "x"], ids=str
)
def test_no_number_takes_what_is_not_finite_or_beyond_all_use_or_a_bool(value: Any) -> None:
    keys = {key for key, _ in numbers(Settings.model_json_schema()) if key.count(".") == 1}
    keys -= {"kafka.partitions", "maintain.retention_days"}
    flags: dict[str, dict[str, Any]] = {}
    for section, key in (one.split(".") for one in keys):
        flags.setdefault(section, {})[key] = value
    with pytest.raises(SettingsError) as refused:
        Settings.load(**flags)
    reported = str(refused.value).split("; ")
    assert_none(key for key in keys if not any(one.startswith(f"{key} = ") and "give " in one for one in reported))


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
    assert set(get_args(Topic)) == set(EVENTS)


@pytest.mark.parametrize("key", ["warehouse", "checkpoints", "jars"])
def test_an_empty_path_is_not_the_folder_one_stands_in(key: str) -> None:
    with pytest.raises(SettingsError, match=rf"paths\.{key} = '': is empty; give a folder"):
        Settings.load(paths={key: ""})
