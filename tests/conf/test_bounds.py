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


def test_the_topics_that_may_have_partitions_are_those_of_events() -> None:
    assert set(get_args(Topic)) == set(EVENTS)
