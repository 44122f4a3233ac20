"""A cluster's producers together: what waits for a tick, what is kept, what is forgotten, and when it is looked at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.rules import default_rules
from tests.udfs.producers.sends import MINUTE, SECOND, START, Send, Tick, every, feed, log_of
from udfs.brokers.skew import CLOCK, SENDS, SENDS_OF, Lag
from udfs.producers.attempts import MOMENT_MS, AttemptsBuilder
from udfs.producers.board import Board
from udfs.producers.fleet import Fleet, Passage

RULES = default_rules()
IDLE_MS = RULES.fault_item_idle_ms
VERSIONS = {"p0": "4.9.8", "p1": "5.1.4", "p2": "5.5.0"}


def attempts_of(sends: list[Send], client_id: str) -> AttemptsBuilder:
    builder = AttemptsBuilder(client_id, VERSIONS[client_id])
    for one in sends:
        if one.client_id == client_id:
            builder.add(START + one.at_ms, one.latency_ms, one.isolation, one.reachable)
    return builder


def test_attempts_wait_until_a_tick_covers_them() -> None:
    fleet = Fleet()
    sends = [Tick(0), Send(7_000, "p0", latency_ms=600), Send(12_000, "p0"), Tick(9_999)]
    feed(fleet, sends, RULES)
    assert fleet.judged_ms == START + 5_000
    assert not fleet.producers
    feed(fleet, [Tick(10_000)], RULES)
    assert set(fleet.shut_out["broker-b"]) == {"p0"}
    assert [step.from_ms - START for step in fleet.waiting["broker-b"]["p0"].steps] == [12_000]
    feed(fleet, [Tick(15_000)], RULES)
    assert not fleet.waiting
    assert fleet.producers["p0"].seen_ms == {"broker-b": START + 12_000}


@pytest.mark.parametrize("late_by", [(SENDS, "broker-b"), (SENDS_OF, "p0"), None])
def test_attempts_that_always_come_late_count_by_the_clusters_time(late_by: tuple[str, str] | None) -> None:
    """By whoever tells what the broker was sent, or by the producer's own clock; else they were over long ago."""
    fleet = Fleet()
    clocks = [Lag("c", CLOCK, "run", window, 0) for window in (1, 2)]
    fleet.learn_lags([*clocks, *(Lag("c", *late_by, window, 133_000) for window in (1, 2) if late_by)])
    feed(fleet, [Tick(225_000)], RULES)
    feed(fleet, [Send(100_000, "p0", latency_ms=600), Tick(235_000)], RULES)
    assert set(fleet.shut_out.get("broker-b", ())) == ({"p0"} if late_by else set())
    out_ms = [item.out_ms - START for of_broker in fleet.shut_out.values() for item in of_broker.values()]
    assert out_ms == ([235_000] if late_by else [])


def test_attempts_of_a_cluster_whose_time_is_an_hour_behind_do_not_wait_for_it() -> None:
    fleet, hour = Fleet(), 60 * MINUTE
    feed(fleet, [Send(hour + 100_000, "p0", latency_ms=600), Tick(95_000)], RULES)
    assert not fleet.shut_out
    for window in (1, 2):
        fleet.learn_lags([Lag("c", CLOCK, "collector", window, hour, hour), Lag("c", SENDS, "broker-b", window, 0)])
    feed(fleet, [Tick(100_000)], RULES)
    assert fleet.shut_out["broker-b"]["p0"].out_ms == START + 100_000


def test_a_healthy_hour_is_not_looked_at_and_keeps_no_item() -> None:
    fleet = Fleet()
    log = log_of(every(SECOND, 0, 60 * MINUTE, "p0"), 60 * MINUTE)
    builder = attempts_of([one for one in log if isinstance(one, Send)], "p0")
    fleet.add("broker-b", builder.attempts)
    assert list(Passage(fleet, START + 60 * MINUTE, RULES).moments()) == []
    assert fleet.judged_ms == START + 60 * MINUTE
    assert not fleet.shut_out


def test_producers_that_stopped_sending_are_forgotten() -> None:
    fleet = Fleet()
    log = log_of([*every(SECOND, 0, MINUTE, "gone"), *every(10 * SECOND, 0, 40 * MINUTE, "here")], 40 * MINUTE)
    feed(fleet, log, RULES)
    assert set(fleet.producers) == {"here"}


def test_a_broker_that_a_producer_left_is_forgotten_and_the_producer_is_not() -> None:
    fleet = Fleet()
    sends = [*every(SECOND, 0, MINUTE, "p0"), *every(10 * SECOND, 0, 40 * MINUTE, "p0", broker_name="broker-a")]
    feed(fleet, log_of(sends, 40 * MINUTE), RULES)
    assert set(fleet.producers["p0"].seen_ms) == {"broker-a"}


@examples(100)
@given(
    st.lists(
        st.builds(
            Send,
            at_ms=st.integers(1, 90_000),
            client_id=st.sampled_from(sorted(VERSIONS)),
            latency_ms=st.sampled_from([3, 549, 700, 1_900, 4_000]),
            isolation=st.booleans(),
            reachable=st.booleans(),
        ),
        max_size=30,
    )
)
def test_at_every_moment_those_are_shut_out_that_the_brokers_own_board_shows(sends: list[Send]) -> None:
    """Though the fleet keeps no item that is available."""
    sends = sorted(sends, key=lambda one: one.at_ms)
    fleet, end_ms = Fleet(), 150_000
    for client_id in VERSIONS:
        fleet.add("broker-b", attempts_of(sends, client_id).attempts)
    fleet.judged_ms = START
    looked_at = {
        now_ms: {client for client, item in fleet.shut_out.get("broker-b", {}).items() if not item.is_available}
        for now_ms in Passage(fleet, START + end_ms, RULES).moments()
    }
    for now_ms in range(START + MOMENT_MS, START + end_ms + 1, MOMENT_MS):
        board, so_far = Board(), [one for one in sends if START + one.at_ms <= now_ms]
        board.advance([attempts_of(so_far, client_id).attempts for client_id in VERSIONS], now_ms, IDLE_MS)
        out = {client_id for client_id, item in board.items.items() if not item.is_available}
        assert looked_at.get(now_ms, set()) == out


def test_batches_between_two_ticks_leave_one_quick_run_a_producer_and_broker() -> None:
    fleet = Fleet()
    for at_ms in range(1_000, 5_000, 10):
        feed(fleet, [Send(at_ms, "p0")], RULES)
    (step,) = fleet.waiting["broker-b"]["p0"].steps
    assert (step.from_ms - START, step.to_ms - START) == (1_000, 4_990)
