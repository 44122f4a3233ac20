"""Poll rounds and clocks as in production: far apart, lost, of several collectors, ahead or behind."""

from functools import cache
from itertools import accumulate, groupby, product
from typing import Any

import pytest

from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from tests.queries.events import BOTH, Event, asked, groups_of_two, in_order
from tests.queries.logs import MINUTE, SECOND, START
from tests.support.engine import Stream
from tests.support.tiers import in_proof

pytestmark = pytest.mark.replay

Events = list[Event]
Rows = list[dict[str, Any]]


@cache
def log_of(scenario: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    return tuple(Simulation(load_scenario(scenario), 1, START).events(10 * MINUTE))


def alerts_of(events: Any) -> Rows:
    return Stream().feed(events).get("alerts", [])


def fired(rows: Rows) -> dict[tuple[str, str], int]:
    """(kind, cause) of what fired by itself, to the second at which it did."""
    return {
        (row["kind"], row["cause"]): (row["changed_at"] - START) // SECOND
        for row in rows
        if row["state"] == "FIRING" and row["reason"] == "hold_over" and not row["inhibited_by"]
    }


def at_rounds_of(scenario: str, *gaps: int) -> Events:
    """The log with clock events so many seconds apart, gap after gap, again and again."""
    rounds = set(accumulate(gaps * 600, initial=0))
    return [
        (topic, event)
        for topic, event in log_of(scenario)
        if topic != CLOCKS or (event["event_time_ms"] - START) // SECOND in rounds
    ]


@cache
def alerts_at_rounds_of(seconds: int, scenario: str, *without: str) -> Rows:
    """The rows of such a log without these topics."""
    return alerts_of(one for one in at_rounds_of(scenario, seconds) if one[0] not in without)


PAGES = ("starved_queue", "duplicate_client_id", "split_view", "broker_no_data")


@pytest.mark.parametrize("seconds", [180, *in_proof([10, 30, 60, 75])])
@pytest.mark.parametrize("scenario", ["twins", "frozen_client", "pull_stopped", "consume_disabled", "dead_broker"])
def test_rounds_of_any_length_give_the_same_pages_two_rounds_later_at_most(scenario: str, seconds: int) -> None:
    """Of what only rounds tell: no producer says that its sends fail."""
    if (scenario, seconds) == ("frozen_client", 180):
        pytest.skip("its queues starve for 90 s; that slow rounds hide such things is told")
    often, seldom = (fired(alerts_at_rounds_of(each, scenario, SEND_LATENCIES)) for each in (5, seconds))
    pages = {key: at for key, at in often.items() if key[0] in PAGES}
    assert pages
    assert {key for key in seldom if key[0] in PAGES} == pages.keys()
    for key, at in pages.items():
        assert at - seconds <= seldom[key] <= at + 2 * seconds, key


@pytest.mark.parametrize("seconds", [10, 60, 75])
def test_rounds_that_hide_what_is_short_are_reported_once(seconds: int) -> None:
    slow = [row for row in alerts_at_rounds_of(seconds, "healthy") if row["kind"] == "slow_collector"]
    assert [row["state"] for row in slow if row["state"] == "FIRING"] == ["FIRING"] * (seconds > 30)
    assert all("double_consumed_queue" in row["summary"] for row in slow)


EACH_GAPS = [(10, 10, 75), (30, 30, 30, 100), *in_proof([((10, 10, 10, 10, 65),), ((5, 5, 65),)])]


@pytest.mark.parametrize("gaps", EACH_GAPS, ids=str)
def test_rounds_of_which_some_are_slow_hide_nothing(gaps: tuple[int, ...]) -> None:
    key = "starved_queue", "pull_stopped"
    often, seldom = (fired(alerts_of(at_rounds_of("pull_stopped", *each)))[key] for each in ((5,), gaps))
    assert often <= seldom <= often + 2 * max(gaps)


def missing_one_of(count: int, scenario: str) -> Events:
    """The log in rounds of 10 s, one of `count` unanswered by broker-b."""
    events: Events = []
    for topic, event in at_rounds_of(scenario, 10):
        is_missed = topic == CLOCKS and (event["event_time_ms"] - START) // (10 * SECOND) % count == count - 1
        others = [name for name in event.get("brokers_answered", ()) if name != "broker-b"]
        events.append((topic, {**event, "brokers_answered": others} if is_missed else event))
    return events


@pytest.mark.parametrize("count", [2, *in_proof([3, 4, 6, 10])])
@pytest.mark.parametrize("scenario", ["pull_stopped", "consume_disabled"])
def test_a_broker_that_misses_rounds_hides_none_of_its_starved_queues(scenario: str, count: int) -> None:
    rows, expected = alerts_of(missing_one_of(count, scenario)), alerts_at_rounds_of(10, scenario)
    paged, known = (
        {queue for row in of if row["kind"] == "starved_queue" and row["fired_at"] for queue in row["queues"]}
        for of in (rows, expected)
    )
    assert paged == known
    assert {row["kind"] for row in rows} == {row["kind"] for row in expected}
    assert len(rows) <= len(expected) + 4


def reported_by(name: str, brokers: str, groups: list[str] | None = None, **reported: Any) -> dict[str, Any]:
    """A clock event; without `brokers_answered` all that were asked have answered."""
    asked = [f"broker-{letter}" for letter in brokers]
    who = {"source": "collector", "collector": name, "groups": groups}
    return {**who, "brokers_asked": asked, "brokers_answered": asked, **reported}


def with_rounds(until: int, rounds: list[tuple[int, dict[str, Any]]]) -> Events:
    """The twelve healthy groups of two brokers; `rounds` are (offset in 10 s, clock event), each from 10 s on."""
    events = [one for one in groups_of_two(until, until) if one[0] != CLOCKS]
    for offset, clock in rounds:
        for second in range(10, clock.pop("until", until), 10):
            at_ms = START + second * SECOND + offset
            events.append((CLOCKS, {"cluster": "c", "event_time_ms": at_ms, **clock}))
    return in_order(*events)


def test_a_second_collector_that_cannot_reach_a_broker_takes_nothing_from_the_first() -> None:
    good = reported_by("one", "ab")
    blind = reported_by("two", "ab", brokers_answered=["broker-a"])
    assert alerts_of(with_rounds(600, [(0, good), (2_500, blind)])) == []


HALVES = [[f"g{number}" for number in range(12) if number % 2 == part] for part in (0, 1)]
"""The twelve groups, shared by two collectors."""


def groups_in(topic: str, event: dict[str, Any]) -> set[str]:
    if topic == PULLS:
        return {event["consumer_group"]}
    return {one["consumer_group"] for one in event["consumers"]} if topic == HEARTBEATS else set()


def test_when_one_of_two_collectors_stops_its_groups_are_unknown_and_it_is_reported_as_one_thing() -> None:
    first, second = HALVES
    goes_on, stops = reported_by("one", "ab", first), reported_by("two", "ab", second, until=300)
    events = [
        (topic, event)
        for topic, event in with_rounds(900, [(0, goes_on), (2_500, stops)])
        if event["event_time_ms"] < START + 300 * SECOND or not groups_in(topic, event) & set(second)
    ]
    stream = Stream().feed(events)
    assert {(row["kind"], row["cause"]) for row in stream["alerts"]} == {("cluster_no_data", "collector_silent")}
    assert [row["state"] for row in stream["alerts"]] == ["UNKNOWN", "FIRING"]
    newest = {(row["consumer_group"], row["broker_name"], row["queue_id"]): row for row in stream["assignments"]}
    assert {row["verdict"] for row in newest.values() if row["consumer_group"] in first} == {"OK"}
    assert {(row["verdict"], row["verdict_reason"]) for row in newest.values() if row["consumer_group"] in second} == {
        ("UNKNOWN", "no_collector")
    }


def collector_rows(events: Events) -> list[tuple[str, str]]:
    """State and reason of each row about a silent collector."""
    return [(row["state"], row["reason"]) for row in alerts_of(events) if row["cause"] == "collector_silent"]


def test_a_replaced_collector_is_not_missed_for_a_broker_that_left_service_later() -> None:
    """broker-c leaves the routes at 300 s, answers until 400 s and is asked no more from then on."""
    old, new = (reported_by(name, "abc") for name in ("old", "new"))
    events = []
    for topic, event in with_rounds(1200, [(0, {**old, "until": 200}), (2_500, new)]):
        changed = dict(event)
        if topic == CLOCKS and event["event_time_ms"] > START + 400 * SECOND:
            changed |= asked(*BOTH)
        if topic == ROUTES:
            events.append((topic, {**event, "event_time_ms": START + 300 * SECOND}))
            changed["queues"] = [*event["queues"], {**event["queues"][0], "broker_name": "broker-c"}]
        events.append((topic, changed))
    assert collector_rows(in_order(*events)) == []


def test_groups_of_a_stopped_collector_that_a_person_forgets_are_not_missed() -> None:
    rest = [f"g{number}" for number in range(1, 12)]
    rounds = [
        (0, reported_by("old", "ab", ["g0", *rest], until=200)),
        (2_500, reported_by("new", "ab", rest)),
    ]
    of_others = [one for one in with_rounds(700, rounds) if "g0" not in groups_in(*one)]
    assert collector_rows(of_others) == [("UNKNOWN", "data_missing"), ("FIRING", "hold_over")]
    entry = {"name": "g0", "owner": "ada", "reason": "not ours"}
    decision: dict[str, Any] = {"cluster": "c", "source": "forget", "brokers_asked": [], "brokers_answered": []}
    decision |= {"event_time_ms": START + 500 * SECOND, "forgotten": [{**entry, "kind": "group"}]}
    forgotten = collector_rows(in_order(*of_others, (CLOCKS, decision)))
    assert forgotten[2:] == [("RECOVERING", "condition_gone"), ("RESOLVED", "recovered")]
    decision |= {"forgotten": [{**entry, "kind": "collector", "name": "old"}]}
    assert collector_rows(in_order(*of_others, (CLOCKS, decision)))[2:] == [("RESOLVED", "forgotten")]


def test_after_a_gap_of_all_collectors_the_first_one_back_does_not_report_the_others() -> None:
    rounds = [(0, reported_by("one", "ab", HALVES[0])), (2_500, reported_by("two", "ab", HALVES[1]))]
    kept = [one for one in with_rounds(900, rounds) if not 300 <= (one[1]["event_time_ms"] - START) / SECOND < 600]
    assert collector_rows(kept) == []
    is_gone = [
        one for one in kept if one[1].get("collector") != "two" or one[1]["event_time_ms"] < START + 300 * SECOND
    ]
    (_, fired_at) = (row["changed_at"] for row in alerts_of(is_gone) if row["cause"] == "collector_silent")
    assert (fired_at - START) // SECOND == 720


def test_what_one_collector_was_refused_is_unknown_unless_another_hears_it() -> None:
    unheard = [{"broker_name": "broker-b", "consumer_group": "g1", "reason": "refused", "since_ms": START}]
    refused = reported_by("one", "ab", unheard=unheard)
    heard = reported_by("two", "ab")
    together = Stream().feed(with_rounds(400, [(0, refused), (1, heard)]))
    alone = Stream().feed(
        (topic, event)
        for topic, event in with_rounds(400, [(0, refused)])
        if groups_in(topic, event) != {"g1"}
        or event["broker_name"] == "broker-a"
        or event["event_time_ms"] < START + 50 * SECOND
    )
    assert alone.get("alerts", []) == []
    assert "refused" in {row["verdict_reason"] for row in alone["assignments"]}
    assert "refused" not in {row["verdict_reason"] for row in together["assignments"]}


SLICE_MS = 2 * SECOND


def is_of(who: str, topic: str, event: dict[str, Any], broken: str) -> bool:
    """Whether the event's time is that of this machine's clock."""
    if who == "broker":
        return topic in (HEARTBEATS, PULLS) and event["broker_name"] == "broker-b"
    if who == "client":
        return topic == PULLS and event["client_id"] == broken
    return topic == CLOCKS if who == "run" else topic in (CLOCKS, HEARTBEATS, PULLS)


def alerts_when_off(scenario: str, who: str, off_s: int) -> Rows:
    """As Kafka stamps the messages, in slices of two seconds; one machine's clock is off."""
    stream, rows, source = Stream(), [], "run" if who == "run" else "collector"
    client = min(event["client_id"] for topic, event in log_of(scenario) if topic == PULLS)
    for _, part in groupby(log_of(scenario), lambda one: one[1]["event_time_ms"] // SLICE_MS):
        true_ms, events = list[int](), list[Event]()
        for topic, event in part:
            true_ms.append(event["event_time_ms"])
            changed = {"source": source} if topic == CLOCKS else {}
            if is_of(who, topic, event, client):
                changed["event_time_ms"] = true_ms[-1] + off_s * SECOND
            events.append((topic, event | changed))
        times = iter(true_ms)
        rows += stream.feed(events, lambda _, times=times: next(times)).get("alerts", [])
    return rows


def reported(rows: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(row["kind"], row["cause"]) for row in rows if row["fired_at"] and not row["inhibited_by"]}


DAILY_OFF, OTHERS_OFF = (150,), (-3600, -150, -95, -45, -20, -1, 1, 45, 3600)


@pytest.mark.parametrize("off_s", [*DAILY_OFF, *in_proof(OTHERS_OFF)])
@pytest.mark.parametrize("who", ["broker", "client", "collector", "run"])
def test_a_clock_that_is_off_pages_nobody_and_is_reported_itself(who: str, off_s: int) -> None:
    rows = alerts_when_off("healthy", who, off_s)
    others = reported(rows) - {("clock_skew", "clock_ahead"), ("clock_skew", "clock_out_of_step")}
    is_refused = who in ("collector", "run") and off_s > 60  # here no other clock steps in
    assert others == ({("cluster_no_data", "no_clock")} if is_refused else set())
    if abs(off_s) >= 45 and who != "run":
        skews = [row for row in rows if row["kind"] == "clock_skew" and row["state"] == "FIRING"]
        assert [row["labels"] for row in skews if row["reason"] == "hold_over"] == [skews[0]["labels"]]
        assert f"{abs(off_s)} s {'ahead' if off_s > 0 else 'behind'}" in skews[0]["summary"]


DAILY = [("pull_stopped", -95), ("consume_disabled", 45)]
OTHERS = sorted({*product(["pull_stopped", "consume_disabled"], DAILY_OFF + OTHERS_OFF)} - {*DAILY})


@pytest.mark.parametrize(("scenario", "off_s"), [*DAILY, *in_proof(OTHERS)])
@pytest.mark.parametrize("who", ["broker", "client", "collector"])
def test_starved_queues_are_reported_whichever_clock_is_off(scenario: str, who: str, off_s: int) -> None:
    if who == "collector" and off_s > 60:
        pytest.skip("a time from the future is not taken; run keeps the time of such a cluster")
    assert ("starved_queue", scenario) in reported(alerts_when_off(scenario, who, off_s))


@pytest.mark.parametrize("off_s", [-95, *in_proof([-3600, -150, 95, 150])])
def test_a_broker_that_is_off_is_known_in_a_log_that_is_written_at_once_too(off_s: int) -> None:
    """All messages have one Kafka time: only their order shows the skew."""
    log = [
        (topic, {**event, "event_time_ms": event["event_time_ms"] + off_s * SECOND} if is_b else event)
        for topic, event in log_of("healthy")
        for is_b in [is_of("broker", topic, event, "")]
    ]
    end_ms = max(event["event_time_ms"] for _, event in log) + SECOND
    fired = {
        (row["kind"], row["broker_name"])
        for row in Stream().feed(log, lambda _: end_ms)["alerts"]
        if row["state"] == "FIRING"
    }
    assert fired == {("clock_skew", "broker-b")}
