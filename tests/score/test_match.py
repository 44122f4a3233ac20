"""The score itself: what counts as told, as missed and as wrong; and every play told right."""

from dataclasses import replace

import pytest

from tests.plays import Play, each_play
from tests.score.claims import Claim, claims_of, pages_of
from tests.score.match import LATE_MS, Tally, compare
from tests.score.truths import Fact, facts_of
from tests.simulator.modelled import START

FACT = Fact("starved_queue", "frozen_client", "g", "orders", "broker-a", None, "broker-a:1", 100_000, 300_000, True)
CLAIM = Claim("starved_queue", "frozen_client", "g", "orders", "broker-a", "A", "broker-a:1", 170_000, 310_000, "i")
KEY = ("starved_queue", "frozen_client")


def tally(claim: Claim | None, fact: Fact | None) -> Tally:
    found = compare([claim] if claim else [], [fact] if fact else [], "run", 0)
    return found.get(KEY, Tally())


def test_a_fact_that_is_reported_counts_with_its_delay() -> None:
    found = tally(CLAIM, FACT)
    assert (found.required, found.reported, found.claims, found.right) == (1, 1, 1, 1)
    assert found.delays_ms == [(70_000, 70_000)]


def test_a_fact_that_nobody_reports_is_missed_unless_it_need_not_be_reported() -> None:
    assert len(tally(None, FACT).missed) == 1
    assert tally(None, replace(FACT, required=False)).missed == []


@pytest.mark.parametrize(
    "claim",
    [
        replace(CLAIM, queue="broker-a:2"),
        replace(CLAIM, consumer_group="other"),
        replace(CLAIM, start_ms=300_001 + LATE_MS, end_ms=None),
        replace(CLAIM, start_ms=1_000, end_ms=99_999),
    ],
)
def test_a_claim_about_something_else_is_wrong_and_reports_nothing(claim: Claim) -> None:
    found = tally(claim, FACT)
    assert (len(found.wrong), len(found.missed)) == (1, 1)


def test_a_claim_of_another_cause_is_wrong_and_the_true_cause_is_missed() -> None:
    found = compare([replace(CLAIM, cause="pull_stopped")], [FACT], "run", 0)
    assert len(found["starved_queue", "pull_stopped"].wrong) == 1
    assert len(found[KEY].missed) == 1


def test_a_silent_queue_is_right_while_the_queue_starves() -> None:
    found = compare([replace(CLAIM, kind="stalled_queue", cause="pull_stopped")], [FACT], "run", 0)
    assert found["stalled_queue", None].right == 1


def test_a_fact_about_a_group_asks_only_for_the_labels_it_names() -> None:
    fact = replace(FACT, kind="split_view", cause=None, queue=None, topic=None, broker_name=None)
    claim = replace(CLAIM, kind="split_view", cause="split_view", queue=None, broker_name="broker-a,broker-b")
    assert compare([claim], [fact], "run", 0)["split_view", None].reported == 1
    named = replace(fact, broker_name="broker-c")
    assert compare([claim], [named], "run", 0)["split_view", None].reported == 0


@pytest.mark.replay
@each_play
def test_every_scenario_is_reported_right(play: Play) -> None:
    found = compare(claims_of(play.alerts), list(facts_of(play.simulation)), play.name, START)
    assert [one for of_kind in found.values() for one in (*of_kind.missed, *of_kind.wrong)] == []
    if play.scenario.healthy:
        assert pages_of(play.alerts) == {}
