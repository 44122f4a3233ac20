"""The page of the JSON interface says what the board answers: each path, its parameters, its fields and their types."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from streaming.board.pages import PAGES, alerts, brokers, deliveries, groups, silences
from tests.board.pictures import pages
from tests.board.tables import MINUTE, NOW_MS, OF_NO_GROUP, alert, client_of, health, write
from tests.support.offenders import assert_none
from tests.test_layout import ROOT

PAGE = ROOT / "streaming/board/api.md"
FIELD = re.compile(r"\| `(?P<name>\w+)` \| (?P<type>[\w ]+) \| (?P<meaning>[^|]+) \|")
PLAIN = {"integer": int, "number": (int, float), "text": str, "boolean": bool}

SORTS = {module.PAGE.name: {*module.SORT} for module in (alerts, brokers, deliveries, groups, silences)}

Fields = Mapping[str, str]


@cache
def sections() -> Mapping[str, str]:
    """Heading, in lower case, to its text."""
    parts = re.split(r"^##+ (.+)$", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(map(str.lower, parts[1::2]), parts[2::2], strict=True))


@cache
def fields_of(heading: str) -> Fields:
    """Field to its type."""
    return {found["name"]: found["type"] for found in FIELD.finditer(sections()[heading])}


def differences(value: Any, type_: str, place: str) -> Iterator[str]:
    """What of a value the documented type does not say."""
    if type_.endswith(" or null"):
        if value is None:
            return
        type_ = type_.removesuffix(" or null")
    word, _, of = type_.partition(" of ")
    if type_ == "any":
        return
    if type_ in PLAIN:
        if not isinstance(value, PLAIN[type_]) or (isinstance(value, bool) and type_ != "boolean"):
            yield f"{place} is {value!r}, not {type_}"
    elif word == "list":
        for item in value:
            yield from differences(item, of, f"{place}[]")
    elif word == "map":
        for item in value.values():
            yield from differences(item, of, f"{place}.*")
    elif word == "page" and of:
        yield from differences(value, "page", place)
        yield from differences(value["items"], f"list of {of}", f"{place}.items")
    else:
        documented = fields_of(type_)
        yield from (f"{place}.{name} is not on the page" for name in value.keys() - documented)
        yield from (f"{place}.{name} is not answered" for name in documented.keys() - value.keys())
        for name in value.keys() & documented:
            yield from differences(value[name], documented[name], f"{place}.{name}")


@pytest.fixture(scope="module")
def warehouse(modelled_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modelled incidents, each silenced, one acknowledged; many incidents, and a broker that producers avoid."""
    warehouse = shutil.copytree(modelled_warehouse, tmp_path_factory.mktemp("api") / "warehouse")
    silence = {"silence_id": "s-1", "created_by": "bob", "comment": "deploy", "matchers": json.dumps({"kind": ["*"]})}
    times = {"starts_at": NOW_MS - MINUTE, "ends_at": NOW_MS + MINUTE, "changed_at": NOW_MS - MINUTE}
    broker = {**OF_NO_GROUP, "kind": "broker_isolated", "broker_name": "broker-a"}
    rows = [alert(f"many-{number}", cluster="crowd", **broker) for number in range(50)]
    by_ada = {"acknowledged_by": "ada", "note": "on it", "acknowledged_at": NOW_MS}
    return write(
        warehouse,
        {
            "silences": [{**silence, **times}],
            "acknowledgements": [{"incident_id": "many-1", **by_ada}],
            "alerts": rows,
            "broker_health": [health(6 * MINUTE, 2, cluster="crowd")],
        },
        1,
    )


QUERIES = {
    **pages(),
    "counted": "/alerts?cluster=crowd",
    "acknowledged": "/incident?id=many-1",
    "past": "/group?cluster=twins&group=order-service&at=1m",
}


def test_every_answer_has_the_fields_and_types_of_the_page(warehouse: Path, subtests: pytest.Subtests) -> None:
    mute = {"name": "night", "match": {"cluster": "dead*"}, "from": "10:00", "to": "12:00"}
    client = client_of(warehouse, mutes=[mute])
    for path in QUERIES.values():
        if path == QUERIES["refused"]:
            continue
        with subtests.test(path):
            name, _, query = path.removeprefix("/").partition("?")
            answer = client.get(f"/api/{name or 'overview'}?{query}").json()
            assert_none(differences(answer["page"], f"/api/{name or 'overview'}", name or "overview"))


def test_every_path_and_parameter_is_on_the_page() -> None:
    documented = {heading: text for heading, text in sections().items() if heading.startswith("/api/")}
    assert documented.keys() == {f"/api/{page.name}" for page in PAGES}
    for page in PAGES:
        line = documented[f"/api/{page.name}"].partition("| field |")[0]
        assert set(re.findall(r"`(\w+)`", line)) == page.parameters, page.name
        sort = re.search(r"`sort` \(([^)]+)\)", line)
        assert set(sort[1].replace("\n", " ").split(", ") if sort else ()) == SORTS.get(page.name, set()), page.name
