"""Groups through time: tests/golden/groups.txt, case by case."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import pytest

from tests.support.rules import default_rules, kind_rules
from tests.udfs.groups.facts import BOTH, CLIENTS, RULES, Life, at, fired_kinds, play, queues_of, two_clients
from udfs.brokers.broker_coverage import BrokerCoverage

GOLDEN = Path(__file__).parents[2] / "golden" / "groups.txt"

OFF = default_rules(kinds={**RULES.kinds, "group_offline": kind_rules(is_enabled=False)})
"""Groups that are offline on purpose."""

LIVES: Mapping[str, Callable[[], Life]] = {
    "none": Life,
    "two": two_clients,
    "two_off": lambda: two_clients(Life(rules=OFF)),
    "orderly": partial(two_clients, consume_orderly=True),
    "machine_rooms": partial(two_clients, strategy="MACHINE_ROOM"),
    "one_queue": partial(Life, queues=1),
    "two_brokers": partial(Life, brokers=BOTH),
    "of_two_queues": partial(Life, brokers=BOTH, queues=2),
    "asked": lambda: two_clients(Life(broker_coverage=BrokerCoverage(answered=frozenset({"broker-a"})))),
    "of_six_queues": partial(Life, brokers=BOTH, queues=6),
    "answering": partial(Life, brokers=BOTH, queues=2, broker_coverage=BrokerCoverage(answered=frozenset(BOTH))),
    "pulls_reported": lambda: Life(broker_coverage=BrokerCoverage(pulled_ms={"broker-a": at(0)})),
}


@dataclass
class Case:
    """A case of the file. `incidents`: key → field → value as text, or "over"."""

    why: str
    life: str = ""
    steps: str = ""
    said: str = ""
    incidents: dict[str, str] = field(default_factory=dict)
    verdicts: str = ""
    never: str = ""


def read_cases(text: str) -> Iterator[Case]:
    case: Case | None = None
    for line in text.replace(";\n", ";").splitlines():
        if not line or line.startswith("#"):
            continue
        if not line.startswith(" "):
            if case is not None:
                yield case
            case = Case(line)
            continue
        assert case is not None
        key, _, value = line.strip().partition(": ")
        if key.startswith("= "):
            case.said = key.removeprefix("= ")
        elif key in ("verdicts", "never"):
            setattr(case, key, value)
        elif key in LIVES:
            case.life, case.steps = key, value
        else:
            case.incidents[key] = value
    assert case is not None
    yield case


def value_of(name: str, text: str) -> object:
    """The value of an incident's field, or of an entry of its evidence."""
    if name == "queues":
        queues = () if text == "-" else queues_of(text.split())
        return tuple(queue if isinstance(queue, str) else f"broker-a:{queue}" for queue in queues)
    if text == "-":
        return None
    if "=" in text:
        return {key: [client] for key, _, client in (word.rpartition("=") for word in text.split())}
    if text.isdecimal():
        return at(int(text)) if name.endswith("_ms") else int(text)
    return CLIENTS.get(text, text)


CASES = list(read_cases(GOLDEN.read_text()))


@pytest.mark.parametrize("case", CASES, ids=[case.why for case in CASES])
def test_a_group(case: Case) -> None:
    life = LIVES[case.life]()
    said = ", ".join(play(life, case.steps))
    assert fnmatchcase(said, case.said), said
    keys = {incident.incident_id: key for key, incident in life.state.incidents.items()}
    for key, fields in case.incidents.items():
        if fields == "over":
            assert key not in life.state.incidents
            continue
        incident = life.state.incidents[key]
        found = {**incident.evidence, **vars(incident), "under": keys.get(incident.inhibited_by or "")}
        found["completeness"] = life.outcomes[-1][1].completeness
        expected = {name: value_of(name, text) for name, _, text in (one.partition(" ") for one in fields.split(", "))}
        assert {name: found[name] for name in expected} == expected
    assert set(case.never.split()).isdisjoint(fired_kinds(life))
    words, verdicts = case.verdicts.split(), list(life.verdicts().values())
    runs = [name for count, name in zip(words[::2], words[1::2], strict=False) for _ in range(int(count))]
    assert not words or verdicts == (runs or words * len(verdicts))
