"""The judge: which claims are right, which facts are detected and resolved in time; and every play judged right."""

from dataclasses import replace
from typing import Any

import pytest

from tests.lab.score.bounds import BOUNDS_MS
from tests.lab.score.claims import Claim, claims_of, pages_of
from tests.lab.score.fact import SLACK_MS, Fact
from tests.lab.score.match import Tally, Verdict, compare, verdicts_of
from tests.lab.score.truths import FLAPPING_MS, facts_of
from tests.simulator.modelled import START
from tests.support.plays import Play, each_play

ROUNDS_MS = 20_000
END_MS = 10_000_000
FACT = Fact(
    "starved_queue",
    "frozen_client",
    "g",
    "orders",
    "broker-a",
    None,
    "broker-a:1",
    100_000,
    300_000,
    True,
    early=frozenset({"pull_stopped"}),
    patience_ms=ROUNDS_MS,
    known_ms=END_MS,
)
CLAIM = Claim("starved_queue", "frozen_client", "g", "orders", "broker-a", "A", "broker-a:1", 170_000, 310_000, "i")
KEY = ("starved_queue", "frozen_client")
DEADLINE_MS = 100_000 + BOUNDS_MS["frozen_client"] + ROUNDS_MS + SLACK_MS
RESOLVED_MS = 300_000 + 35_000 + 60_000 + ROUNDS_MS


def tally(claim: Claim | None, fact: Fact | None) -> Tally:
    found = compare([claim] if claim else [], [fact] if fact else [], "run", 0)
    return found.get(KEY, Tally())


def test_a_fact_that_is_detected_and_resolved_in_time_counts_with_both_delays() -> None:
    found = tally(CLAIM, FACT)
    assert (found.required, found.in_time, found.ended, found.resolved, found.reported) == (1, 1, 1, 1, 1)
    assert (found.claims, found.right) == (1, 1)
    assert found.delays_ms == [(70_000, 70_000)]
    assert found.recovery_ms == [10_000]


AGAIN = replace(FACT, start_ms=380_000, end_ms=500_000, required=False)
OTHER = replace(FACT, cause="consume_stopped", start_ms=300_000, end_ms=900_000, required=False)
OFTEN = replace(FACT, comings_ms=(100_000, 180_000, 260_000))
STALLED = replace(CLAIM, kind="stalled_queue", cause="pull_stopped")
CLOCK = replace(FACT, kind="clock_skew", cause=None, queue=None, consumer_group=None, topic=None, broker_name=None)
SKEWED = replace(CLAIM, kind="clock_skew", machine="broker:broker-a")
UNDER = replace(FACT, cause="pull_stopped", queue=None, consumer_group=None, topic=None, required=False)
STOPPED = replace(CLAIM, cause="pull_stopped")
RIGHT, WRONG, EARLY, LATE, ENDLESS = Verdict


@pytest.mark.parametrize(
    ("claim", "facts", "expected"),
    [
        pytest.param(replace(CLAIM, queue="broker-a:2"), [FACT], WRONG, id="another queue"),
        pytest.param(replace(CLAIM, consumer_group="other"), [FACT], WRONG, id="another group"),
        pytest.param(replace(CLAIM, topic="payments"), [FACT], WRONG, id="another topic"),
        pytest.param(replace(CLAIM, start_ms=300_001 + ROUNDS_MS, end_ms=350_000), [FACT], WRONG, id="begins after it"),
        pytest.param(replace(CLAIM, start_ms=1_000, end_ms=99_999), [FACT], WRONG, id="ends before it"),
        pytest.param(replace(CLAIM, start_ms=99_000), [FACT], EARLY, id="begins before its fact"),
        pytest.param(replace(CLAIM, end_ms=RESOLVED_MS), [FACT], RIGHT, id="ends as late as it may"),
        pytest.param(replace(CLAIM, end_ms=RESOLVED_MS + 1), [FACT], LATE, id="ends too long after its fact"),
        pytest.param(replace(CLAIM, end_ms=None), [FACT], ENDLESS, id="open at the end of the play"),
        pytest.param(replace(CLAIM, end_ms=550_000), [FACT, AGAIN], RIGHT, id="its fact came back before it resolved"),
        pytest.param(replace(CLAIM, end_ms=550_000), [FACT, replace(AGAIN, queue="broker-a:2")], LATE,
                     id="that of another queue came"),
        pytest.param(replace(CLAIM, end_ms=1_000_000), [OFTEN], RIGHT, id="its fact came often"),
        pytest.param(replace(CLAIM, end_ms=1_000_000), [replace(FACT, comings_ms=(100_000, 260_000))], LATE,
                     id="its fact came twice"),
        pytest.param(replace(CLAIM, end_ms=260_001 + FLAPPING_MS), [OFTEN], LATE, id="it came often, but long ago"),
        pytest.param(replace(CLAIM, end_ms=500_000), [FACT, OTHER], RIGHT, id="it starves on for another cause"),
        pytest.param(replace(CLAIM, end_ms=OTHER.detect_by_ms + 1), [FACT, OTHER], LATE, id="which is known by now"),
        pytest.param(STALLED, [FACT], RIGHT, id="an early sign"),
        pytest.param(STALLED, [replace(FACT, cause="write_only_queue", early=frozenset())], WRONG, id="no early sign"),
        pytest.param(CLAIM, [replace(FACT, clients=frozenset({"A"}))], RIGHT, id="blames the holder"),
        pytest.param(CLAIM, [replace(FACT, clients=frozenset({"B"}))], WRONG, id="blames another client"),
        pytest.param(SKEWED, [replace(CLOCK, machine="broker:broker-a")], RIGHT, id="the machine"),
        pytest.param(SKEWED, [replace(CLOCK, machine="broker:")], RIGHT, id="any broker"),
        pytest.param(SKEWED, [replace(CLOCK, machine="broker:broker-b")], WRONG, id="another machine"),
        pytest.param(SKEWED, [replace(CLOCK, machine="client:broker-a")], WRONG, id="another role"),
        pytest.param(STOPPED, [UNDER], RIGHT, id="a queue of the dead broker"),
        pytest.param(replace(STOPPED, broker_name="broker-b", queue="broker-b:1"), [UNDER], WRONG, id="of another one"),
        pytest.param(replace(STOPPED, cause="stale_route"), [UNDER], WRONG, id="for another cause"),
    ],
)  # fmt: skip
def test_a_claim_has_its_verdict(claim: Claim, facts: list[Fact], expected: Verdict) -> None:
    assert verdicts_of([claim], facts)[claim] is expected


RESOLVED = {"in_time": 1, "ended": 1, "resolved": 1, "reported": 1, "right": 1}
LONG_WRONG = {"in_time": 1, "ended": 1, "missed": 1, "wrong": 1}


@pytest.mark.parametrize(
    ("claim", "fact", "counts"),
    [
        pytest.param(None, FACT, {"missed": 1}, id="no claim"),
        pytest.param(None, replace(FACT, required=False), {}, id="an optional fact"),
        pytest.param(replace(CLAIM, queue="broker-a:2"), FACT, {"missed": 1, "wrong": 1}, id="another queue"),
        pytest.param(STALLED, FACT, {"missed": 1}, id="an early sign"),
        pytest.param(replace(CLAIM, start_ms=99_000), FACT, {"early": 1, "missed": 1, "wrong": 1}, id="too early"),
        pytest.param(replace(CLAIM, end_ms=RESOLVED_MS + 1), FACT, {"late": 1} | LONG_WRONG, id="late to resolve"),
        pytest.param(replace(CLAIM, end_ms=None), FACT, {"endless": 1} | LONG_WRONG, id="never ended"),
        pytest.param(replace(CLAIM, start_ms=DEADLINE_MS), FACT, RESOLVED, id="bound, two rounds and slack"),
        pytest.param(replace(CLAIM, start_ms=DEADLINE_MS + 50_000), replace(FACT, due_ms=150_000), RESOLVED,
                     id="the first stretch that is long enough"),
        pytest.param(replace(CLAIM, end_ms=None), replace(FACT, known_ms=RESOLVED_MS - 1),
                     {"in_time": 1, "reported": 1, "right": 1}, id="an end that the play does not show"),
    ],
)  # fmt: skip
def test_a_fact_and_a_claim_are_counted(claim: Claim | None, fact: Fact, counts: dict[str, int]) -> None:
    found = tally(claim, fact)
    figures = {name: value if isinstance(value, int) else len(value) for name, value in vars(found).items()}
    names = ("in_time", "ended", "resolved", "reported", "right", "early", "late", "endless", "missed", "wrong")
    assert {name: figures[name] for name in names if figures[name]} == counts


def test_an_alert_that_fires_late_is_right_and_its_fact_missed() -> None:
    late = tally(replace(CLAIM, start_ms=DEADLINE_MS + 5_000), FACT)
    assert (late.in_time, late.reported, late.right) == (0, 0, 1)
    assert late.missed[0].endswith("5 s late")


def test_an_alert_that_did_not_end_detects_no_later_fact() -> None:
    again = replace(FACT, start_ms=1_000_000, end_ms=1_200_000)
    stuck = compare([replace(CLAIM, end_ms=None)], [FACT, again], "run", 0)[KEY]
    assert (stuck.required, stuck.in_time, stuck.claims, stuck.endless) == (2, 1, 1, 1)
    two = replace(CLAIM, start_ms=1_070_000, end_ms=1_210_000)
    assert compare([CLAIM, two], [FACT, again], "run", 0)[KEY].reported == 2


def test_a_claim_of_another_cause_is_wrong_and_the_true_cause_is_missed() -> None:
    found = compare([replace(CLAIM, cause="pull_stopped")], [FACT], "run", 0)
    assert len(found["starved_queue", "pull_stopped"].wrong) == 1
    assert len(found[KEY].missed) == 1


def test_a_fact_about_a_group_asks_only_for_the_labels_it_names() -> None:
    fact = replace(FACT, kind="split_view", cause=None, queue=None, topic=None, broker_name=None)
    claim = replace(CLAIM, kind="split_view", cause="split_view", queue=None, broker_name="broker-a,broker-b")
    assert compare([claim], [fact], "run", 0)["split_view", None].reported == 1
    named = replace(fact, broker_name="broker-c")
    assert compare([claim], [named], "run", 0)["split_view", None].reported == 0


def row(state: str, second: int, queues: tuple[str, ...] = ("broker-a:1",), **changes: Any) -> dict[str, Any]:
    return {
        "kind": "stalled_queue",
        "cause": "pull_stopped",
        "state": state,
        "severity": "warning",
        "consumer_group": "g",
        "topic": "orders",
        "broker_name": "broker-a,broker-b",
        "client_id": None,
        "queues": queues,
        "evidence": "{}",
        "incident_id": "i",
        "inhibited_by": None,
        "changed_at": second * 1000,
        **changes,
    }


def spans(*rows: dict[str, Any]) -> list[tuple[str | None, int, int | None]]:
    return [(claim.queue, claim.start_ms // 1000, claim.end_ms and claim.end_ms // 1000) for claim in claims_of(rows)]


def test_a_claim_is_open_until_its_incident_resolves_or_leaves_its_queue_out() -> None:
    both = ("broker-a:1", "broker-b:1")
    rows = [row("PENDING", 5), row("FIRING", 10, both), row("FIRING", 40), row("RECOVERING", 50), row("RESOLVED", 110)]
    assert spans(*rows) == [("broker-a:1", 10, 110), ("broker-b:1", 10, 40)]
    assert spans(*rows[:-1]) == [("broker-a:1", 10, None), ("broker-b:1", 10, 40)]
    assert [claim.broker_name for claim in claims_of(rows)] == ["broker-a", "broker-b"]


def test_a_queue_that_an_incident_names_again_much_later_is_another_claim() -> None:
    rows = [row("FIRING", 10), row("FIRING", 40, ()), row("FIRING", 90)]
    assert spans(*rows) == [("broker-a:1", 10, None)]
    rows[-1]["changed_at"] = 101_000
    assert spans(*rows) == [("broker-a:1", 10, 40), ("broker-a:1", 101, None)]


def test_a_row_blames_its_client_for_its_own_cause_only() -> None:
    evidence = '{"queues": {"broker-b:1": {"cause": "order_lock"}}}'
    queues = ("broker-a:1", "broker-b:1")
    rows = [row("FIRING", 10, queues, kind="starved_queue", client_id="a@1", evidence=evidence)]
    claimed = [(claim.cause, claim.client_id) for claim in claims_of(rows)]
    assert claimed == [("pull_stopped", "a@1"), ("order_lock", None)]


def test_an_inhibited_alert_is_a_claim_and_no_page() -> None:
    rows = [row("FIRING", 10, inhibited_by="other")]
    assert len(claims_of(rows)) == 1
    assert pages_of(rows) == {}


def test_a_clock_alert_is_a_claim_for_each_machine() -> None:
    evidence = '{"role": "client", "ahead_ms": {"a@1": 20000, "b@2": -20000}}'
    rows = [row("FIRING", 10, (), kind="clock_skew", cause="clock_out_of_step", evidence=evidence)]
    assert [claim.machine for claim in claims_of(rows)] == ["client:a@1", "client:b@2"]


@pytest.mark.replay
@each_play
def test_every_scenario_is_reported_right(play: Play) -> None:
    rounds_ms = 2 * play.scenario.clock_interval_ms
    facts = [replace(fact, patience_ms=rounds_ms) for fact in facts_of(play.simulation, rounds_ms)]
    found = compare(claims_of(play.alerts), facts, play.name, START)
    assert [one for of_kind in found.values() for one in (*of_kind.missed, *of_kind.wrong)] == []
    if play.scenario.healthy:
        assert pages_of(play.alerts) == {}
