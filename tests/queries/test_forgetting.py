"""A person decides that something is gone: what was open of it ends, and it begins anew should it give data again."""

from copy import deepcopy
from functools import cache

import pytest

from schemas.decode import decode
from schemas.events import CLOCKS, PULLS, SEND_LATENCIES
from streaming.service.forget_command import Decision, forget_event
from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from tests.queries.events import BOTH, Event, clock, groups_of_two, pull
from tests.queries.logs import MINUTE, SECOND, START, Rows
from tests.support.engine import Stream

pytestmark = pytest.mark.replay


def forget(second: int, kind: str, name: str, brokers: tuple[str, ...] = ("broker-a", "broker-b")) -> Event:
    decision = Decision("c", kind, name, "ada", "sold")
    return CLOCKS, forget_event(decision, list(brokers), START + second * SECOND)


@cache
def fed() -> tuple[Stream, Rows]:
    stream = Stream()
    return stream, stream.feed(groups_of_two(400, 200))


def of_two() -> Stream:
    """A stream that continues from the store of one that has worked through `groups_of_two(400, 200)`."""
    stream = Stream()
    stream._store, stream._enveloper = deepcopy((fed()[0]._store, fed()[0]._enveloper))
    return stream


def ended(rows: Rows) -> set[tuple[str, str | None]]:
    return {(row["kind"], row["reason"]) for row in rows.get("alerts", []) if row["state"] == "RESOLVED"}


def test_its_event_is_a_good_one() -> None:
    (_, event) = forget(0, "broker", "broker-b")
    message = Stream()._enveloper.messages([(CLOCKS, event)])[0]
    assert decode(CLOCKS, message["value"], message["ingest_time_ms"])[1] == []


def test_all_that_is_open_of_a_forgotten_cluster_ends_and_no_state_of_it_is_left() -> None:
    stream = of_two()
    open_kinds = {row["kind"] for row in fed()[1]["alerts"] if row["state"] == "FIRING"}
    assert open_kinds >= {"broker_no_data", "starved_queue"}
    rows = stream.feed([forget(410, "cluster", "c")])
    assert {kind for kind, _ in ended(rows)} >= open_kinds
    assert {reason for _, reason in ended(rows)} == {"forgotten"}
    assert all(row["summary"].endswith("Forgotten by ada: sold.") for row in rows["alerts"])
    assert {row["change"] for row in rows["memberships"]} == {"LEFT"}
    assert {row["verdict"] for row in rows["assignments"]} == {"NOT_JUDGED"}
    assert [row["source"] for row in rows["clock_heard"]] == ["forget"]
    kept = stream.kept
    assert [kept.groups.all_keys(), kept.routes.all_keys(), kept.channels.all_keys()] == [[], [], []]
    assert kept.shard_index.clusters == {}
    late = [one for one in groups_of_two(400, 400) if one[1]["event_time_ms"] > START + 300 * SECOND]
    assert stream.feed(late, lambda _: START + 405 * SECOND).get("alerts", []) == []
    assert stream.kept.shard_index.clusters == {}


def test_a_forgotten_cluster_that_is_heard_again_begins_anew() -> None:
    stream = of_two()
    stream.feed([forget(410, "cluster", "c")])
    fresh = [
        (topic, {**event, "event_time_ms": max(event["event_time_ms"], START + 420 * SECOND)})
        for topic, event in groups_of_two(700, 700)
        if event["event_time_ms"] > START + 420 * SECOND or topic not in (PULLS, CLOCKS)
    ]
    rows = stream.feed(fresh)
    assert {row["change"] for row in rows["memberships"]} == {"JOINED"}
    assert [row for row in rows.get("alerts", []) if row["state"] == "FIRING"] == []


def tick(second: int, source: str, answered: tuple[str, ...] = ()) -> Event:
    return clock(second, source, brokers_asked=list(BOTH), brokers_answered=list(answered))


@pytest.mark.parametrize("is_one_batch", [True, False])
@pytest.mark.parametrize(
    ("source", "answered"),
    [("run", ()), ("run", ("broker-a", "broker-b")), ("collector", ())],
    ids=["run, unheard", "run, heard", "a round that no broker answered"],
)
def test_no_tick_brings_a_forgotten_cluster_back_that_no_broker_stands_behind(
    source: str, answered: tuple[str, ...], is_one_batch: bool
) -> None:
    stream, decision = of_two(), forget(410, "cluster", "c")
    ticks = [tick(second, source, answered) for second in range(415, 1_000, 5)]
    batches = [[decision, *ticks]] if is_one_batch else [[one] for one in (decision, *ticks)]
    rows = [stream.feed(batch) for batch in batches]
    reported = [row for part in rows for row in part.get("alerts", ()) if row["reason"] != "forgotten"]
    assert reported == []
    assert [row["source"] for part in rows for row in part.get("clock_heard", ())] == ["forget"]
    assert stream.kept.shard_index.clusters == {}


def test_a_round_that_a_broker_answers_and_an_event_of_a_client_bring_a_forgotten_cluster_back() -> None:
    for back in (tick(420, "collector", ("broker-a",)), pull(420, 0)):
        stream = of_two()
        for event in (forget(410, "cluster", "c"), back, tick(425, "run", ("broker-a",))):
            stream.feed([event])
        assert stream.kept.shard_index.clusters.keys() == {"c"}
        assert stream.kept.shard_index.clusters["c"].now_ms == START + 425 * SECOND


def test_a_cluster_that_producers_alone_fed_asks_for_no_clock_once_it_is_forgotten() -> None:
    stream = Stream()
    events = list(Simulation(load_scenario("slow_broker"), 1, START).events(2 * MINUTE))
    sends = [(topic, {**event, "cluster": "c"}) for topic, event in events if topic == SEND_LATENCIES]
    rows = stream.feed([*sends, forget(121, "cluster", "c", ("broker-a", "broker-b"))])
    assert [row for row in rows["clock_needed"] if row["is_wanted"]] == []


def test_a_dead_broker_that_is_forgotten_is_over_though_its_collector_goes_on_asking() -> None:
    stream = Stream()
    answered = {"source": "collector", "brokers_asked": ["broker-a", "broker-b"], "brokers_answered": ["broker-a"]}
    events = [
        (topic, {**event, **answered} if topic == CLOCKS and event["event_time_ms"] > START + 200 * SECOND else event)
        for topic, event in groups_of_two(1500, 200)
    ]
    dead = [one for one in events if one[1]["event_time_ms"] < START + 600 * SECOND]
    reported = stream.feed(dead)
    assert "broker_no_data" in {row["kind"] for row in reported["alerts"] if row["state"] == "FIRING"}
    rows = stream.feed([forget(601, "broker", "broker-b"), *events[len(dead) :]])
    assert ("broker_no_data", "forgotten") in ended(rows)
    assert [
        row for row in rows["alerts"] if row["state"] in ("FIRING", "UNKNOWN") and row["reason"] != "cause_ended"
    ] == []
    assert {row["broker_name"] for row in rows["memberships"]} == {"broker-b"}


def test_a_forgotten_group_ends_and_the_others_go_on() -> None:
    stream = Stream()
    stream.feed(groups_of_two(300, 300))
    rows = stream.feed([forget(300, "group", "g3")])
    assert {row["consumer_group"] for row in rows["memberships"]} == {"g3"}
    assert {row["consumer_group"] for row in rows["assignments"]} == {"g3"}


@pytest.mark.parametrize("kind", ["cluster", "broker"])
def test_what_producers_reported_of_it_ends_too(kind: str) -> None:
    stream = Stream()
    events = list(Simulation(load_scenario("slow_broker"), 1, START).events(4 * MINUTE))
    reported = stream.feed([(topic, {**event, "cluster": "c"}) for topic, event in events])
    firing = {row["broker_name"] for row in reported["alerts"] if row["kind"] == "broker_isolated"}
    (broker_name,) = firing
    name = "c" if kind == "cluster" else broker_name
    rows = stream.feed([forget(241, kind, name, (broker_name,))])
    assert ("broker_isolated", "forgotten") in ended(rows)
    over = [row["summary"] for row in rows["alerts"] if row["reason"] == "forgotten"]
    assert all("Forgotten by " in summary for summary in over)
    assert [(row["unavailable_producers"], row["producers"]) for row in rows["broker_health"]] == [(0, 0)]
    assert all(row["available"] for row in rows["fault_items"])


def test_a_cluster_that_only_producers_feed_asks_for_a_clock_and_is_judged_by_it() -> None:
    stream = Stream()
    events = list(Simulation(load_scenario("slow_broker"), 1, START).events(4 * MINUTE))
    sends = [one for one in events if one[0] == SEND_LATENCIES]
    wanted = stream.feed(sends[:200])["clock_needed"]
    assert [(row["cluster"], row["is_wanted"]) for row in wanted] == [("modelled", True)]
    ticks = [(topic, {**event, "source": "run"}) for topic, event in events if topic == CLOCKS]
    rest = sorted([*sends[200:], *ticks], key=lambda one: one[1]["event_time_ms"])
    assert "broker_isolated" in {row["kind"] for row in stream.feed(rest)["alerts"]}
