"""A modelled cluster watched under conditions: what is told late, not at all, or by a wrong clock; the truth stays."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from schemas.decode import decode
from schemas.events import CLOCKS, EVENTS, HEARTBEATS, PULLS
from streaming.simulator.conditions import Conditions, ConditionsError, Skew, parse_skew
from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from streaming.simulator.world import Said
from tests.lab.score.truth import TrueWatch
from tests.simulator.modelled import MINUTE, SECOND, START

pytestmark = pytest.mark.replay

ROUND_MS = 10 * SECOND


def watch(name: str, conditions: Conditions, beside: str = "") -> tuple[TrueWatch, list[Said]]:
    watched = TrueWatch(load_scenario(name), 1, START, conditions, beside)
    return watched, list(watched.said(5 * MINUTE))


def collector(**fields: Any) -> Conditions:
    return Conditions("collector", fields.pop("interval_ms", ROUND_MS), **fields)


def of(said: list[Said], topic: str) -> list[dict[str, Any]]:
    return [event for name, event, _ in said if name == topic]


EVERYTHING = [
    (Conditions(), ""),
    (Conditions("agents", lag_ms=30 * SECOND), "slow"),
    (Conditions("model", skew=Skew("broker", -95 * SECOND)), "rollout 20 quarters new"),
    (collector(missed_rounds=0.3, lost_answers=0.1, mute_clients=0.3, listed_only=0.4), "hung"),
    (collector(interval_ms=75 * SECOND, skew=Skew("collector", -150 * SECOND)), "suspended"),
]


@pytest.mark.parametrize(("conditions", "beside"), EVERYTHING, ids=str)
def test_what_is_seen_keeps_the_contract_and_reaches_kafka_in_order(conditions: Conditions, beside: str) -> None:
    _, said = watch("twins", conditions, beside)
    assert all(one[2] <= later[2] for one, later in pairwise(said))
    for topic, event, time_ms in said:
        _, reasons = decode(topic, msgspec.json.encode(event), time_ms)
        assert reasons == []
        assert event.keys() <= set(EVENTS[topic].by_name)


def test_conditions_change_nothing_of_what_is_true() -> None:
    truths = [list(watch("twins", one)[0].simulation.truth) for one in (Conditions(), collector(missed_rounds=0.5))]
    assert truths[0] == truths[1]


def test_the_same_seed_sees_the_same() -> None:
    conditions = collector(missed_rounds=0.3, lost_answers=0.1, listed_only=0.5)
    assert watch("twins", conditions)[1] == watch("twins", conditions)[1]


def test_by_default_everything_is_reported_as_it_happens() -> None:
    watched, said = watch("healthy", Conditions())
    again = Simulation(load_scenario("healthy"), 1, START)
    assert [(topic, event) for topic, event, _ in said] == list(again.events(5 * MINUTE))
    assert all(event["event_time_ms"] == time_ms for _, event, time_ms in said)
    assert watched.simulation.truth.at(START + 4 * MINUTE) == []


def test_a_round_reports_no_event_of_before_the_round_before_it() -> None:
    _, said = watch("healthy", collector(skew=Skew("broker", -95 * SECOND)))
    for topic, event, time_ms in said:
        if topic in (HEARTBEATS, PULLS) and time_ms > START + 2 * ROUND_MS:
            assert time_ms - ROUND_MS <= event["event_time_ms"] <= time_ms
    assert all(clock["skews"][0]["ahead_ms"] == -95 * SECOND for clock in of(said, CLOCKS) if "skews" in clock)
    assert any("skews" in clock for clock in of(said, CLOCKS))


def test_a_missed_round_reports_nothing_of_its_broker_and_the_next_one_reports_it() -> None:
    watched, said = watch("healthy", collector(missed_rounds=0.5))
    name = watched.suspects.broker_name
    missing = {clock["event_time_ms"] for clock in of(said, CLOCKS) if name not in clock["brokers_answered"]}
    assert 15 <= len(missing) <= 45
    reported = {time_ms for topic, event, time_ms in said if topic == HEARTBEATS and event["broker_name"] == name}
    assert reported
    assert not reported & missing


def test_who_does_not_answer_is_reported_and_asked_again_after_a_minute() -> None:
    _, said = watch("healthy", collector(lost_answers=0.1))
    reasons = defaultdict(list)
    for clock in of(said, CLOCKS):
        for one in clock.get("unheard", ()):
            reasons[one["reason"]].append(clock["event_time_ms"] - one["since_ms"])
    assert set(reasons) == {"timed_out", "left_in_peace"}
    assert 0 in reasons["timed_out"]
    assert max(reasons["left_in_peace"]) >= 50 * SECOND


def test_agents_events_lag_and_nobody_keeps_the_time() -> None:
    _, said = watch("healthy", Conditions("agents", lag_ms=30 * SECOND))
    assert of(said, CLOCKS) == []
    assert all(24 * SECOND <= time_ms - event["event_time_ms"] <= 30 * SECOND for _, event, time_ms in said)


@pytest.mark.parametrize(
    ("fields", "reported"),
    [
        ({"view": "eye"}, "view 'eye' is not one of model, agents, collector"),
        ({"missed_rounds": 0.5}, "missed_rounds needs view = 'collector'"),
        ({"lag_ms": 5_000}, "lag needs view = 'agents'"),
        ({"skew": Skew("collector", 5_000)}, "a skew of 'collector' needs view = 'collector'"),
        ({"skew": Skew("broker", 10**9)}, "skew = 1e+06 is not within 86400 seconds"),
    ],
)
def test_conditions_that_nobody_can_watch_under_are_refused(fields: dict[str, Any], reported: str) -> None:
    with pytest.raises(ConditionsError) as error:
        Conditions(**fields)
    assert str(error.value) == reported


def test_a_skew_is_read_from_a_word() -> None:
    assert parse_skew("broker:-95") == Skew("broker", -95_000)
    for text in ("broker", "broker:x", "broker:1e400"):
        with pytest.raises(ConditionsError, match="give ROLE:SECONDS"):
            parse_skew(text)
