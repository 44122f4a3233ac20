"""The sections: bounds of all numbers, vocabularies, and the errors (`golden/settings.txt`)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conf.rules import Override
from conf.settings import Settings, SettingsError
from schemas.tables import TABLES
from tests.support.offenders import assert_none

GOLDEN = Path(__file__).parents[1] / "golden" / "settings.txt"


def test_each_table_has_a_default() -> None:
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
