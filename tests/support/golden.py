"""Golden cases: what happens in steps, and what must be found then. The head of each file explains its own words.

Why, or the nearest innocent case
    START: STEP; STEP                      a line that ends with ";" or "," continues in the next one
    = ROW, ROW                             the rows of the last `to`; "*" for any text; none without this line
    KIND SUBJECT: FIELD VALUE, FIELD VALUE  an incident at the end: its fields or its evidence; `under` is the key of
                                           its inhibitor, times are seconds, "-" is none; "over" if it is not open
    KIND SUBJECT says: TEXT | TEXT         parts of its summary or its advice
    WORD: VALUE                            a check of the file's own
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from streaming.text.language import translate
from tests.support.chinese import is_chinese
from udfs.alerts.alert import Incident

GOLDEN = Path(__file__).parents[1] / "golden"

ValueOf = Callable[[str, str], object]
"""(field, its text) to the value."""


@dataclass
class Case:
    """A case of a file; `checks` are its other lines by the part before the colon."""

    why: str
    start: str = ""
    steps: str = ""
    rows: str = ""
    checks: dict[str, str] = field(default_factory=dict)

    def assert_rows(self, rows: list[str]) -> None:
        assert fnmatchcase(", ".join(rows), self.rows), ", ".join(rows)

    def assert_incidents(self, incidents: Mapping[str, Incident], value_of: ValueOf, **more: object) -> None:
        """`more` are further values that each incident may be asked for."""
        keys = {incident.incident_id: key for key, incident in incidents.items()}
        for name, expected in self.checks.items():
            key = name.removesuffix(" says")
            if expected == "over":
                assert key not in incidents
                continue
            incident = incidents[key]
            text = " ".join(map(str, incident.text))
            assert "None" not in text
            assert isinstance(incident.text.summary, str) or is_chinese(translate(incident.text.summary, "zh"))
            if name != key:
                assert [part for part in expected.split(" | ") if part not in text] == []
                continue
            found = {**incident.evidence, **vars(incident), "under": keys.get(incident.inhibited_by or ""), **more}
            fields = {one.partition(" ")[0]: one.partition(" ")[2] for one in expected.split(", ")}
            values = {one: value_of(one, text) for one, text in fields.items()}
            assert {one: found[one] for one in values} == values


def read_cases(name: str) -> list[Case]:
    """Return the cases of tests/golden/NAME.txt."""
    cases: list[Case] = []
    for line in re.sub(r"([;,])\n\s+", r"\1 ", (GOLDEN / f"{name}.txt").read_text()).splitlines():
        key, _, value = line.strip().partition(": ")
        if line.startswith("#") or not key:
            continue
        if not line.startswith(" "):
            cases.append(Case(line))
        elif key.startswith("= "):
            cases[-1].rows = line.strip().removeprefix("= ")
        elif not cases[-1].start:
            cases[-1].start, cases[-1].steps = key, value
        else:
            cases[-1].checks[key] = value
    return cases


def each_case(name: str) -> pytest.MarkDecorator:
    """Parametrise a test with `case`, a case of the file."""
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.why) for case in read_cases(name)])


def scalar(text: str, at: Callable[[float], int], name: str) -> object:
    """Return "-" as None, a number as it is, or as the ms of that second for a field that ends with `_ms`."""
    if text == "-":
        return None
    if text.isdecimal():
        return at(int(text)) if name.endswith("_ms") else int(text)
    return text
