"""The judge: which claims are right, which facts are detected and resolved in time; and every play judged right."""

from dataclasses import replace
from typing import Any

import pytest

from tests.lab.score.bounds import BOUNDS_MS
from tests.lab.score.claims import Claim, claims_of, pages_of
from tests.lab.score.match import Tally, Verdict, compare, verdicts_of
from tests.lab.score.truths import FLAPPING_MS, SLACK_MS, Fact, facts_of
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


def verdict(claim: Claim, *facts: Fact) -> Verdict:
    return verdicts_of([claim], facts)[claim]


def test_a_fact_that_is_detected_and_resolved_in_time_counts_with_both_delays() -> None:
    found = tally(CLAIM, FACT)
    assert (found.required, found.in_time, found.ended, found.resolved, found.reported) == (1, 1, 1, 1, 1)
    assert (found.claims, found.right) == (1, 1)
    assert found.delays_ms == [(70_000, 70_000)]
    assert found.recovery_ms == [10_000]


def test_a_fact_without_a_claim_is_missed_unless_it_is_optional() -> None:
    assert len(tally(None, FACT).missed) == 1
    assert tally(None, replace(FACT, required=False)).missed == []


@pytest.mark.parametrize(
    "claim",
    [
        replace(CLAIM, queue="broker-a:2"),
        replace(CLAIM, consumer_group="other"),
        replace(CLAIM, topic="payments"),
        replace(CLAIM, start_ms=300_001 + ROUNDS_MS, end_ms=350_000),
        replace(CLAIM, start_ms=1_000, end_ms=99_999),
    ],
)
def test_a_claim_about_something_else_is_wrong_and_detects_nothing(claim: Claim) -> None:
    found = tally(claim, FACT)
    assert (len(found.wrong), len(found.missed)) == (1, 1)
    assert verdict(claim, FACT) is Verdict.WRONG


def test_an_alert_must_fire_by_the_bound_two_rounds_and_the_slack() -> None:
    assert tally(replace(CLAIM, start_ms=DEADLINE_MS), FACT).in_time == 1
    late = tally(replace(CLAIM, start_ms=DEADLINE_MS + 5_000), FACT)
    assert (late.in_time, late.reported, late.right) == (0, 0, 1)
    assert late.missed[0].endswith("5 s late")


def test_the_deadline_counts_from_the_first_stretch_that_is_long_enough() -> None:
    assert tally(replace(CLAIM, start_ms=DEADLINE_MS + 50_000), replace(FACT, due_ms=150_000)).in_time == 1


def test_a_claim_that_begins_before_its_fact_is_too_early_and_detects_nothing() -> None:
    found = tally(replace(CLAIM, start_ms=99_000), FACT)
    assert (found.early, found.right, found.reported, len(found.missed)) == (1, 0, 0, 1)


def test_a_claim_that_ends_too_long_after_its_fact_resolves_late() -> None:
    assert tally(replace(CLAIM, end_ms=RESOLVED_MS), FACT).resolved == 1
    found = tally(replace(CLAIM, end_ms=RESOLVED_MS + 1), FACT)
    assert (found.late, found.right, found.in_time, found.ended, found.resolved, found.reported) == (1, 0, 1, 1, 0, 0)


def test_a_claim_that_is_open_at_the_end_of_the_play_never_ended() -> None:
    found = tally(replace(CLAIM, end_ms=None), FACT)
    assert (found.endless, found.right, found.resolved, found.reported) == (1, 0, 0, 0)
    assert found.missed[0].endswith("not resolved in time")


def test_an_end_that_the_play_does_not_show_long_enough_is_not_judged() -> None:
    found = tally(replace(CLAIM, end_ms=None), replace(FACT, known_ms=RESOLVED_MS - 1))
    assert (found.endless, found.ended, found.reported, found.right) == (0, 0, 1, 1)


def test_a_fact_that_comes_back_before_its_alert_resolves_carries_the_alert_on() -> None:
    again = replace(FACT, start_ms=380_000, end_ms=500_000, required=False)
    claim = replace(CLAIM, end_ms=550_000)
    assert verdict(claim, FACT, again) is Verdict.RIGHT
    assert verdict(claim, FACT, replace(again, queue="broker-a:2")) is Verdict.LATE


def test_an_alert_that_did_not_end_detects_no_later_fact() -> None:
    again = replace(FACT, start_ms=1_000_000, end_ms=1_200_000)
    stuck = compare([replace(CLAIM, end_ms=None)], [FACT, again], "run", 0)[KEY]
    assert (stuck.required, stuck.in_time, stuck.claims, stuck.endless) == (2, 1, 1, 1)
    two = replace(CLAIM, start_ms=1_070_000, end_ms=1_210_000)
    assert compare([CLAIM, two], [FACT, again], "run", 0)[KEY].reported == 2


def test_an_alert_is_held_open_only_where_its_fact_came_often() -> None:
    held = replace(CLAIM, end_ms=1_000_000)
    often = replace(FACT, comings_ms=(100_000, 180_000, 260_000))
    assert verdict(held, often) is Verdict.RIGHT
    assert verdict(held, replace(FACT, comings_ms=(100_000, 260_000))) is Verdict.LATE
    assert verdict(replace(held, end_ms=260_001 + FLAPPING_MS), often) is Verdict.LATE


def test_a_queue_that_starves_on_keeps_its_cause_until_the_next_one_can_be_known() -> None:
    other = replace(FACT, cause="consume_stopped", start_ms=300_000, end_ms=900_000, required=False)
    claim = replace(CLAIM, end_ms=500_000)
    assert verdict(claim, FACT) is Verdict.LATE
    assert verdict(claim, FACT, other) is Verdict.RIGHT
    assert verdict(replace(claim, end_ms=other.detect_by_ms + 1), FACT, other) is Verdict.LATE


def test_a_claim_of_another_cause_is_wrong_and_the_true_cause_is_missed() -> None:
    found = compare([replace(CLAIM, cause="pull_stopped")], [FACT], "run", 0)
    assert len(found["starved_queue", "pull_stopped"].wrong) == 1
    assert len(found[KEY].missed) == 1


def test_a_stalled_queue_is_right_only_as_the_early_sign_of_its_cause() -> None:
    stalled = replace(CLAIM, kind="stalled_queue", cause="pull_stopped")
    assert verdict(stalled, FACT) is Verdict.RIGHT
    assert verdict(stalled, replace(FACT, cause="write_only_queue", early=frozenset())) is Verdict.WRONG
    assert compare([stalled], [FACT], "run", 0)[KEY].reported == 0


def test_a_claim_that_blames_another_client_is_wrong() -> None:
    assert verdict(CLAIM, replace(FACT, clients=frozenset({"A"}))) is Verdict.RIGHT
    assert verdict(CLAIM, replace(FACT, clients=frozenset({"B"}))) is Verdict.WRONG


def test_a_clock_claim_must_name_the_machine() -> None:
    fact = replace(FACT, kind="clock_skew", cause=None, queue=None, consumer_group=None, topic=None, broker_name=None)
    claim = replace(CLAIM, kind="clock_skew", machine="broker:broker-a")
    assert verdict(claim, replace(fact, machine="broker:broker-a")) is Verdict.RIGHT
    assert verdict(claim, replace(fact, machine="broker:")) is Verdict.RIGHT
    assert verdict(claim, replace(fact, machine="broker:broker-b")) is Verdict.WRONG
    assert verdict(claim, replace(fact, machine="client:broker-a")) is Verdict.WRONG


def test_under_a_dead_broker_only_its_own_queues_may_be_claimed() -> None:
    under = replace(FACT, cause="pull_stopped", queue=None, consumer_group=None, topic=None, required=False)
    claim = replace(CLAIM, cause="pull_stopped")
    assert verdict(claim, under) is Verdict.RIGHT
    assert verdict(replace(claim, broker_name="broker-b", queue="broker-b:1"), under) is Verdict.WRONG
    assert verdict(replace(claim, cause="stale_route"), under) is Verdict.WRONG


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
