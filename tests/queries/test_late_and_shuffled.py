"""Events out of order, twice, late, or by a clock that is wrong: what changes nothing, and what may change when.

**Nothing changes** while each event is in Kafka before the first clock event of its cluster that is not older than it.
Between two clock events any order will do, and an event may come as often as it likes: every row of every table is
the same. How late an event is by the wall clock has no bound, if the clock events wait for it, as a collector's do.
(fault_items and broker_health are the exception: they tell each batch's attempts as they come, so there a producer's
attempts must keep their order from one batch to the next, as they do in Kafka. Alerts do not depend on it.)

**Later than its clock event**, an event counts at the next one. By up to LATE_MS, shorter than the 15 s within which
a healthy idle queue is pulled, that moves when a lasting fault is told; it hides none, and makes none up.
"""

import json
import operator
import random
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import CLOCKS, SEND_LATENCIES
from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from tests.queries.events import Event, by_ticks
from tests.support.engine import Stream
from tests.support.tiers import in_proof

pytestmark = pytest.mark.replay

Rows = dict[str, list[dict[str, Any]]]

START_MS = 1_750_000_000_000
SECONDS = 300
LATE_MS = 10_000
SCENARIOS = ["twins", "slow_broker", *in_proof(["frozen_client", "order_lock_lost"])]
TABLES = ("alerts", "assignments", "memberships", "fault_items", "broker_health")
OF_TICKS = ("alerts", "assignments", "memberships")

few = settings(max_examples=2)
"""An example plays a whole log."""

seeds = st.integers(0, 2**32 - 1)


@cache
def log_of(scenario: str) -> tuple[Event, ...]:
    return tuple(Simulation(load_scenario(scenario), 3, START_MS).events(SECONDS * 1000))


def play(windows: Iterable[list[Event]]) -> Rows:
    """Each window reaches Kafka at once, when the newest of it has happened; producers' own clocks tell no time."""
    stream, rows, now_ms = Stream(), dict[str, list[dict[str, Any]]](), 0
    for window in windows:
        now_ms = max([now_ms, *(event["event_time_ms"] for topic, event in window if topic != SEND_LATENCIES)])
        for table, of_table in stream.feed(window, lambda _, at_ms=now_ms: at_ms).items():
            rows.setdefault(table, []).extend(of_table)
    return rows


@cache
def reported(scenario: str) -> Rows:
    """What the log gives as it is."""
    return play(by_ticks(log_of(scenario)))


def as_multisets(rows: Rows, tables: Iterable[str] = TABLES) -> dict[str, Counter[str]]:
    return {table: Counter(json.dumps(row, sort_keys=True) for row in rows.get(table, [])) for table in tables}


def shuffled(window: list[Event], rng: random.Random, repeated: float) -> list[Event]:
    """All but the clock event in another order, some of it twice."""
    ticks = [event for event in window if event[0] == CLOCKS]
    others = [event for event in window if event[0] != CLOCKS]
    others += [event for event in others if rng.random() < repeated]
    rng.shuffle(others)
    return others + ticks


@pytest.mark.parametrize("scenario", SCENARIOS)
@few
@given(seed=seeds, repeated=st.sampled_from([0.0, 0.2, 1.0]))
def test_order_and_repetition_between_two_clock_events_change_no_row(scenario: str, seed: int, repeated: float) -> None:
    rng = random.Random(seed)
    rows = play(shuffled(window, rng, repeated) for window in by_ticks(log_of(scenario)))
    assert as_multisets(rows) == as_multisets(reported(scenario))


@pytest.mark.parametrize("scenario", SCENARIOS)
@few
@given(seed=seeds, at_most=st.integers(1, 40))
def test_any_lateness_changes_no_row_while_the_clock_events_wait_for_it(scenario: str, seed: int, at_most: int) -> None:
    """Up to forty clock events, 200 s, come at once behind all that they cover, in one batch or in several."""
    rng = random.Random(seed)
    held: list[list[Event]] = []
    batches: list[list[Event]] = []
    for window in by_ticks(log_of(scenario)):
        held.append(window)
        if rng.randrange(at_most) == 0:
            batches += released(held, rng)
            held = []
    rows = play([*batches, *released(held, rng)])
    assert as_multisets(rows, OF_TICKS) == as_multisets(reported(scenario), OF_TICKS)


def released(held: list[list[Event]], rng: random.Random) -> list[list[Event]]:
    """What was held back, in any order, cut somewhere; its clock events last."""
    events = [event for window in held for event in window]
    others = shuffled([event for event in events if event[0] != CLOCKS], rng, 0)
    cut = rng.randrange(len(others) + 1)
    return [others[:cut], others[cut:] + [event for event in events if event[0] == CLOCKS]]


def late(events: Iterable[Event], share: float, rng: random.Random) -> list[Event]:
    """A share of the events come up to LATE_MS after their time, and clock events in time."""
    arrivals = [
        (event["event_time_ms"] + (rng.uniform(0, LATE_MS) if topic != CLOCKS and rng.random() < share else 0), n)
        for n, (topic, event) in enumerate(events)
    ]
    log = list(events)
    return [log[n] for _, n in sorted(arrivals)]


def fired(rows: Rows) -> set[tuple[str, str]]:
    return {(row["kind"], row["alert_id"]) for row in rows.get("alerts", []) if row["state"] == "FIRING"}


@pytest.mark.parametrize(
    ("scenario", "compares"),
    [
        *((scenario, operator.ge) for scenario in ("twins", "lost_host")),
        *((scenario, operator.le) for scenario in ("reconnect", "rolling_restart")),
        *in_proof([("frozen_client", operator.ge), ("slow_broker", operator.ge)]),
        *in_proof([("healthy", operator.le), ("scale_out_in", operator.le)]),
    ],
)
@few
@given(seed=seeds, share=st.sampled_from([0.1, 0.5, 1.0]))
def test_events_later_than_their_clock_event_hide_no_lasting_fault_and_make_none_up(
    scenario: str, compares: Callable[[Any, Any], bool], seed: int, share: float
) -> None:
    rows = play(by_ticks(late(log_of(scenario), share, random.Random(seed))))
    assert compares(fired(rows), fired(reported(scenario)))


@few
@given(skew_ms=st.integers(-20_000, 20_000))
def test_a_producer_whose_clock_is_wrong_changes_neither_what_is_reported_nor_of_whom(skew_ms: int) -> None:
    """One of three that avoid a slow broker; its attempts are told up to 20 s early or late by their own time."""
    log = log_of("slow_broker")
    skewed = next(event["client_id"] for topic, event in log if topic == SEND_LATENCIES)
    moved = [
        (topic, event | {"event_time_ms": event["event_time_ms"] + skew_ms})
        if topic == SEND_LATENCIES and event["client_id"] == skewed
        else (topic, event)
        for topic, event in log
    ]
    rows = play(by_ticks(moved))
    assert fired(rows) == fired(reported("slow_broker"))
    for table in ("assignments", "memberships"):
        assert rows[table] == reported("slow_broker")[table]
