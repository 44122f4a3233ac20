"""Findings about brokers through time: tests/golden/producers.txt, case by case, and however a log is cut."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.golden import Case, each_case, scalar
from tests.support.rules import default_rules
from tests.udfs.producers.sends import MINUTE, SECOND, START, Send, every, judge, reported
from udfs.alerts.life import FIRING, RESOLVED
from udfs.producers import findings

WHO = re.compile(r"p(?P<first>\d+)(?:-p(?P<last>\d+))?(?:@(?P<broker_name>[a-z-]+))?(?:/(?P<client_version>\S+))?")
WHEN = re.compile(r"(?P<from>[0-9.]+)(?:-(?P<to>[0-9.]+))?(?:/(?P<step>[0-9.]+))?")
HOW = re.compile(r"(?P<latency_ms>[0-9]*)(?P<isolation>!?)(?P<unreachable>\??)")


def sends_of(who: str, when: str, how: str = "3") -> Iterator[Send]:
    """The sends of one step."""
    client, span, kind = (pattern.fullmatch(text) for pattern, text in ((WHO, who), (WHEN, when), (HOW, how)))
    assert client is not None, who
    assert span is not None, when
    assert kind is not None, how
    fields: dict[str, Any] = {name: client[name] for name in ("broker_name", "client_version") if client[name]}
    fields |= {"latency_ms": int(kind["latency_ms"]), "isolation": bool(kind["isolation"])}
    fields["reachable"] = not kind["unreachable"]
    from_ms = round(float(span["from"]) * SECOND)
    for number in range(int(client["first"]), int(client["last"] or client["first"]) + 1):
        if span["to"]:
            step_ms, to_ms = (round(float(span[name] or 1) * SECOND) for name in ("step", "to"))
            yield from every(step_ms, from_ms, to_ms, f"p{number}", **fields)
        else:
            yield Send(from_ms, f"p{number}", **fields)


@each_case("producers")
def test_a_fleet(case: Case) -> None:
    sends: list[Send] = []
    rules, end_ms = default_rules(), 0
    for verb, *words in map(str.split, case.steps.split(";")):
        if verb == "to":
            end_ms = int(words[0]) * SECOND
        elif verb == "rules":
            rules = default_rules(**{name: float(value) for name, _, value in (word.partition("=") for word in words)})
        else:
            sends += sends_of(verb, *words)
    transitions = judge(sends, end_ms, rules=rules)
    kind = case.checks.pop("only", None)
    found = [one for one in transitions if kind in (None, one.incident.kind)]
    rows = [(str((one.changed_at_ms - START) // SECOND), one.state, one.incident) for one in found]
    case.assert_rows([" ".join([second, row.kind, *({state} - {FIRING}), row.cause]) for second, state, row in rows])
    fired = {
        " ".join(filter(None, (one.incident.kind, one.incident.labels.get("broker_name")))): one.incident
        for one in transitions
        if one.state == FIRING
    }
    json.dumps([incident.evidence for incident in fired.values()])
    case.assert_incidents(fired, lambda name, text: scalar(text, lambda second: START + round(second * SECOND), name))


def test_a_producer_that_stays_slow_is_reported_until_that_is_its_usual_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "USUAL_MS", 2 * MINUTE)
    steps = ("p0-p2{} 0-360", "p9{} 0-60", "p9{} 60-360 700")
    sends = [send for at in ("", "@broker-a") for step in steps for send in sends_of(*step.format(at).split())]
    rows = [row for row in reported(judge(sends, 6 * MINUTE)) if row[0] == "no_available_broker"]
    assert rows == [("no_available_broker", FIRING, 90), ("no_available_broker", RESOLVED, 235)]


@pytest.mark.parametrize("seconds", [65, 75, 600])
def test_time_in_which_neither_sends_nor_clock_events_arrived_ends_no_isolation(seconds: int) -> None:
    """5.3.3 producers shut a broker out for a few seconds each time: they do it again after the outage."""
    outage = range(100 * SECOND, (100 + seconds) * SECOND)
    steps = (f"p0-p2/5.3.3 0-{seconds + 200}/3 2000", f"p0-p2@broker-a/5.3.3 0-{seconds + 300}/3")
    sends = [send for step in steps for send in sends_of(*step.split())]
    rows = reported(judge(sends, (seconds + 300) * SECOND, outage=outage))
    assert [row for row in rows if row[0] == "broker_isolated"] == [
        ("broker_isolated", FIRING, 30),
        ("broker_isolated", RESOLVED, seconds + 260),
    ]


@pytest.mark.parametrize("seconds", [50, 59, 62])
def test_an_outage_after_a_pause_of_the_slow_sends_ends_no_isolation(seconds: int) -> None:
    """None of the two is as long as broker_isolated_clear_ms; a storm lost a minute of data so, and a page ended."""
    outage = range(100 * SECOND, (100 + seconds) * SECOND)
    slow = ("p0-p2/5.3.3 0-81/3 2000", f"p0-p2/5.3.3 {100 + seconds}-{seconds + 200}/3 2000")
    steps = (*slow, f"p0-p2@broker-a/5.3.3 0-{seconds + 300}/3")
    sends = [send for step in steps for send in sends_of(*step.split())]
    rows = [row for row in reported(judge(sends, (seconds + 300) * SECOND, outage=outage)) if row[1] != FIRING]
    assert [row[:2] for row in rows if row[0] == "broker_isolated"] == [("broker_isolated", RESOLVED)]
    assert rows[0][2] > seconds + 250


VERSIONS = {"p0": "4.9.8", "p1": "5.1.4", "p2": "5.5.0"}
sends_of_any_kind = st.lists(
    st.builds(
        lambda client_id, **fields: Send(client_id=client_id, client_version=VERSIONS[client_id], **fields),
        at_ms=st.integers(0, 300_000),
        client_id=st.sampled_from(sorted(VERSIONS)),
        broker_name=st.sampled_from(["broker-a", "broker-b"]),
        latency_ms=st.sampled_from([3, 700, 1_900, 20_000]),
        isolation=st.booleans(),
        reachable=st.booleans(),
    ),
    max_size=60,
)


@examples(80)
@given(sends_of_any_kind, st.integers(2, 40), st.integers(0, 300_000), st.integers(0, 120_000))
def test_a_log_gives_the_same_alerts_however_it_is_cut(
    sends: list[Send], batches: int, from_ms: int, lost_ms: int
) -> None:
    outage = range(from_ms, from_ms + lost_ms)
    rules = default_rules(broker_isolated_hold_ms=10_000, broker_isolated_clear_ms=15_000, broker_evicted_ms=40_000)
    assert judge(sends, 400_000, batches, rules, outage) == judge(sends, 400_000, 1, rules, outage)
