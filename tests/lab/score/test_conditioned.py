"""The score under conditions: plays with one thing wrong each are reported right, and hidden facts are optional."""

from functools import cache
from typing import Any

import pytest

from streaming.simulator.conditions import Conditions, Skew
from streaming.simulator.scenario import load_scenario
from streaming.simulator.watched import Watched
from tests.lab.score.claims import PER_QUEUE
from tests.lab.score.conditioned import facts_under
from tests.lab.score.fact import Fact
from tests.lab.score.recorded import Recorded
from tests.lab.score.run import CHURN, DAY_MS, Run, play, runs, score
from tests.lab.score.sample import draw
from tests.simulator.modelled import START
from tests.support.tiers import in_proof

pytestmark = pytest.mark.replay

SECOND = 1_000


def model(interval_s: float, **losses: Any) -> Conditions:
    return Conditions("model", int(interval_s * SECOND), **losses)


def collector(interval_s: float, **losses: Any) -> Conditions:
    return Conditions("collector", int(interval_s * SECOND), **losses)


def agents(interval_s: float, lag_s: int = 0, **losses: Any) -> Conditions:
    return Conditions("agents", int(interval_s * SECOND), lag_ms=lag_s * SECOND, **losses)


def ahead(role: str, seconds: int) -> Skew:
    return Skew(role, seconds * SECOND)  # type: ignore[arg-type]  # one of the roles


@cache
def facts(name: str, conditions: Conditions, duration_ms: int | None = None) -> list[Fact]:
    watched = Recorded(load_scenario(name), 1, START, conditions)
    for _ in watched.said(duration_ms):
        pass
    return list(facts_under(watched))


def required(name: str, conditions: Conditions) -> set[tuple[str, str | None]]:
    return {(fact.kind, fact.cause) for fact in facts(name, conditions) if fact.required}


FROZEN = ("starved_queue", "frozen_client")
MUTE = collector(10, mute_clients=1.0)


@pytest.mark.parametrize(
    ("name", "conditions", "finding", "is_required"),
    [
        ("frozen_client", Conditions(), FROZEN, True),
        ("frozen_client", collector(10, lost_answers=0.05), FROZEN, True),
        ("frozen_client", MUTE, FROZEN, True),
        ("frozen_client", collector(10, listed_only=1.0), FROZEN, False),
        ("twins", MUTE, ("duplicate_client_id", None), True),
        ("split_view", MUTE, ("split_view", None), True),
        ("member_not_subscribed", MUTE, ("inconsistent_subscription", None), True),
        ("group_offline", MUTE, ("group_offline", None), True),
        ("hung_listener", MUTE, ("starved_queue", "consume_stopped"), True),
        ("lost_host", MUTE, FROZEN, True),
        ("slave_read_busy", collector(10, mute_clients=0.3), ("slave_read", None), True),
        ("slave_read_busy", MUTE, ("slave_read", None), False),
        ("pull_stopped", collector(45), ("slow_collector", None), True),
        ("pull_stopped", collector(45, missed_rounds=0.8), ("slow_collector", None), True),
        ("frozen_client", Conditions(skew=ahead("broker", -95)), ("clock_skew", None), True),
        *in_proof(
            [
                ("frozen_client", collector(5), FROZEN, True),
                ("frozen_client", collector(10), FROZEN, True),
                ("frozen_client", collector(180), FROZEN, False),
            ]
        ),
    ],
)
def test_what_conditions_hide_need_not_be_reported_and_they_make_facts_of_their_own(
    name: str, conditions: Conditions, finding: tuple[str, str | None], is_required: bool
) -> None:
    assert (finding in required(name, conditions)) is is_required


def test_of_lost_rounds_or_refused_times_one_fact_is_required() -> None:
    missed = collector(10, missed_rounds=0.9)
    assert required("frozen_client", missed) == {("broker_no_data", None)}
    refused = collector(45, missed_rounds=0.8, skew=ahead("collector", 3600))
    assert required("pull_stopped", refused) == {("clock_skew", None)}


def test_queues_of_a_client_that_does_not_answer_are_known_by_their_commits() -> None:
    """Every client is mute: what the owner's answers would show after 120 s its commits show after 240."""
    mute = facts("pull_stopped", collector(10, mute_clients=1.0))
    plain = facts("pull_stopped", collector(10))
    starved = [[one for one in found if one.kind == "starved_queue" and one.queue] for found in (mute, plain)]
    assert [{one.later_ms for one in found} for found in starved] == [{120 * SECOND}, {0}]
    assert all(one.required for found in starved for one in found)


def test_commits_prove_nothing_while_only_a_slave_serves() -> None:
    """The master of broker-a is down from 120 s to 420 s, and a listener hangs from 150 s on, beside the scenario."""
    watched = Recorded(load_scenario("master_down"), 1, START, Conditions(), "hung")
    for _ in watched.said():
        pass
    beside = [one for one in facts_under(watched) if one.cause == "consume_stopped" and one.consumer_group]
    usual = [one for one in facts("hung_listener", Conditions()) if one.cause == "consume_stopped"]
    assert max(one.later_ms for one in beside) > 200 * SECOND > 25 * SECOND > max(one.later_ms for one in usual)


def test_a_blamed_client_must_hold_the_queue() -> None:
    starved = [one for one in facts("frozen_client", Conditions()) if one.kind == "starved_queue"]
    assert starved
    assert all(one.clients == {"10.20.0.12@5120#81203344120874"} for one in starved)


def test_a_broker_may_be_without_data_only_while_it_misses_rounds() -> None:
    rarely = facts("healthy", collector(10, missed_rounds=0.1))
    assert "broker_no_data" not in {one.kind for one in rarely}
    seldom = facts("healthy", collector(10, missed_rounds=0.8))
    assert {one.broker_name for one in seldom if one.kind == "broker_no_data"} == {"broker-a"}


def test_a_clock_is_named_with_its_machine() -> None:
    def machines(conditions: Conditions) -> set[str | None]:
        return {one.machine for one in facts("healthy", conditions, 60 * SECOND) if one.kind == "clock_skew"}

    assert machines(Conditions(skew=ahead("broker", -95))) == {"broker:broker-a"}
    assert machines(Conditions("collector", skew=ahead("collector", -95))) == {"collector:"}
    assert machines(Conditions("collector", skew=ahead("collector", 3600))) == {"clock:"}
    assert machines(agents(5, 20)) == {"broker:", "client:"}


def test_to_agents_the_queues_of_a_dead_broker_may_starve_while_it_is_dead() -> None:
    under = [one for one in facts("dead_broker", agents(5)) if one.kind in PER_QUEUE]
    assert {(one.broker_name, one.cause, one.queue) for one in under} == {("broker-b", "pull_stopped", None)}
    assert all(one.end_ms is not None and not one.required for one in under)


def test_half_of_the_plays_have_a_second_group_in_their_processes() -> None:
    found = [run.has_second_group for run in runs(None, range(1, 4), 0, samples=3)]
    assert 0.4 < sum(found) / len(found) < 0.6
    run = Run("healthy", 1, None, has_second_group=True)
    assert run.labels() == {"view": "model", "second group": "yes"}
    assert "second group yes" in str(run)


def test_a_page_of_a_healthy_play_is_false_unless_its_labels_and_time_are_a_fact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker may be without data in this play: broker-a."""
    page: dict[str, Any] = dict.fromkeys(("consumer_group", "topic", "client_id", "inhibited_by"))
    page |= {"kind": "broker_no_data", "severity": "critical", "state": "FIRING", "queues": [], "evidence": "{}"}
    pages = (("true", "broker-a", 400), ("another_broker", "broker-b", 400), ("too_early", "broker-a", -1))

    def played(watched: Watched, duration_ms: int | None = None) -> list[dict[str, object]]:
        for _ in watched.said(duration_ms):
            pass
        return [
            {**page, "incident_id": cause, "cause": cause, "broker_name": name, "changed_at": START + second * SECOND}
            for cause, name, second in pages
        ]

    monkeypatch.setattr("tests.lab.score.run.play", played)
    found = score(Run("healthy", 1, None, collector(10, missed_rounds=0.8))).false_pages
    assert found == ["broker_no_data another_broker", "broker_no_data too_early"]


def test_to_a_collector_every_starved_queue_is_also_one_without_commits() -> None:
    starved = [fact for fact in facts("frozen_client", Conditions("collector")) if fact.kind == "starved_queue"]
    assert starved
    assert all("consume_stopped" in fact.also for fact in starved)


def test_draws_are_the_same_each_time_and_of_all_sorts() -> None:
    drawn = [draw(f"twins {number}") for number in range(300)]
    assert drawn == [draw(f"twins {number}") for number in range(300)]
    assert {one.view for one, _ in drawn} == {"model", "agents", "collector"}
    assert {one.interval_ms for one, _ in drawn} >= {5_000, 10_000, 30_000, 60_000, 75_000, 180_000}
    labels = set().union(*(Run("twins", 1, None, one).labels() for one, _ in drawn))
    assert labels >= {"missed_rounds", "lost_answers", "mute_clients", "listed_only", "skew", "lag"}


def test_half_of_the_healthy_days_are_under_conditions() -> None:
    todo = [run for run in runs(["twins"], range(1, 3), 8.0, samples=1) if run.name == CHURN and not run.beside]
    plain = [run for run in todo if run.conditions == Conditions()]
    assert sum(run.duration_ms or 0 for run in plain) == 4 * DAY_MS
    assert sum(run.duration_ms or 0 for run in todo) == 8 * DAY_MS


MANY_LOST: dict[str, float] = {"lost_answers": 0.05, "mute_clients": 0.3}

PLAYED: list[tuple[str, int, Conditions, str]] = [
    ("twins", 1, collector(10), ""),
    ("frozen_client", 1, collector(30), ""),
    ("frozen_client", 1, collector(30, missed_rounds=0.25), ""),
    ("room_not_covered", 801, collector(5, missed_rounds=0.4), ""),
    ("tags_differ", 1, collector(10), ""),
    ("suspended_joined", 1, collector(10), ""),
    ("reconnect", 1, collector(10, listed_only=1.0), ""),
    ("healthy", 1, collector(10, lost_answers=0.1), ""),
    ("twins", 1, collector(10, skew=ahead("collector", -3600)), ""),
    ("healthy", 1, collector(75, skew=ahead("broker", -45)), ""),
    ("lost_host", 801, collector(5, **MANY_LOST), ""),
    ("stale_route", 802, collector(180), "suspended"),
    ("master_down", 802, collector(75), "rollout 20 one_by_one new"),
    ("empty_ring", 801, collector(60), ""),
    ("healthy", 1, agents(5), "slow"),
    ("pull_stopped", 1, agents(5, 30), ""),
    ("all_brokers_slow", 803, agents(5, 150, skew=ahead("broker", 95)), ""),
]
"""Scenario, seed, conditions, what goes on beside: a play of each view, loss, load and kind of skew."""

PLAYED_IN_PROOF: list[tuple[str, int, Conditions, str]] = [
    ("offset_regression", 801, agents(5), ""),
    ("rollout_one_by_one", 801, collector(5, **MANY_LOST, listed_only=1.0), ""),
    ("healthy", 1, collector(10, mute_clients=0.5, missed_rounds=0.4), "hung"),
    ("scale_out_in", 802, collector(10, missed_rounds=0.8, mute_clients=0.3), "suspended"),
    ("healthy", 1, collector(30), "rollout 20 surge groups"),
    ("rollout_groups", 15444, agents(10, 150, skew=ahead("broker", -3600)), ""),
    ("healthy", 1, agents(5, 90), ""),
    ("flow_control", 83652, agents(10), "slow"),
    ("order_lock_lost", 803, agents(5, 90), ""),
    ("dead_broker", 7, agents(5), ""),
    ("rollout_surge", 802, agents(10, 45, skew=ahead("run", -5)), "rollout 20 one_by_one stable"),
    ("flapping_broker", 803, agents(5, 150, skew=ahead("run", 95)), "hung"),
    ("dead_broker", 1, collector(30), "rollout 20 one_by_one groups"),
    ("frozen_client", 1, collector(10), ""),
    ("frozen_client", 1, collector(60), ""),
    ("tags_differ", 1, Conditions(), ""),
    ("suspended", 1, collector(10), ""),
    ("pull_stopped", 1, model(60), ""),
    ("consume_disabled", 1, collector(75), ""),
    ("healthy", 1, collector(10, skew=ahead("client", -150)), ""),
    ("healthy", 1, model(10), "rollout 40 one_by_one stable"),
    ("healthy", 1, collector(10), "rollout 80 one_by_one stable"),
    ("healthy", 1, agents(5), "rollout 40 surge new"),
    ("healthy", 1, model(10, skew=ahead("broker", -95)), ""),
    ("healthy", 1, collector(180, skew=ahead("broker", -150)), ""),
    ("dead_broker", 1, agents(5), ""),
    ("write_only_perm", 803, agents(5, 90), "rollout 40 quarters new"),
    ("rollout_groups", 42720, agents(10, 20, skew=ahead("run", -95)), ""),
]
"""Of the same dimensions, what was once wrong, and roll-outs of 40 and 80 pods."""


def runs_of(played: list[tuple[str, int, Conditions, str]]) -> list[Run]:
    return [Run(name, seed, None, conditions, beside) for name, seed, conditions, beside in played]


@pytest.mark.parametrize("scenario", ["split_view", *in_proof(["mixed_strategy", "twins", "stale_route"])])
def test_queues_that_two_clients_really_pull_are_reported_at_slower_ticks_too(scenario: str) -> None:
    rows = play(Watched(load_scenario(scenario), 1, START, model(10)))
    assert "double_consumed_queue" in {row["kind"] for row in rows if row["state"] == "FIRING"}


@pytest.mark.parametrize("run", [*runs_of(PLAYED), *in_proof(runs_of(PLAYED_IN_PROOF))], ids=str)
def test_a_play_under_conditions_is_reported_right(run: Run) -> None:
    found = score(run)
    assert [one for of_kind in found.tallies.values() for one in (*of_kind.missed, *of_kind.wrong)] == []
    assert found.false_pages == []
