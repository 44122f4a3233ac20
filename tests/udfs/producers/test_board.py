"""Run-length attempts and the board, held against applying MQFaultStrategy.updateFaultItem attempt by attempt."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Never

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from udfs.producers.attempts import Attempts, AttemptsBuilder
from udfs.producers.board import Board, Flip, Health, Item
from udfs.rocketmq.fault import FaultItem, is_available, update_fault_item
from udfs.rocketmq.version import parse_client_version

IDLE_MS = 1_800_000
VERSIONS = ("4.7.1", "4.9.8", "5.1.3", "5.1.4", "5.2.0", "5.5.0")


@dataclass(frozen=True)
class Attempt:
    time_ms: int
    latency_ms: int
    isolation: bool = False
    reachable: bool = True


attempts_in_order = st.lists(
    st.builds(
        Attempt,
        time_ms=st.integers(1, 900).map(lambda tick: tick * 1_000),
        latency_ms=st.sampled_from([3, 60, 549, 550, 1_000, 1_799, 1_800, 3_500, 15_000]),
        isolation=st.booleans(),
        reachable=st.booleans(),
    ),
    max_size=25,
    unique_by=lambda attempt: attempt.time_ms,
).map(lambda attempts: sorted(attempts, key=lambda attempt: attempt.time_ms))


def flips_one_by_one(attempts: Iterable[Attempt], version: str, end_ms: int) -> list[tuple[int, bool]]:
    """(when, available) by the rule itself: each attempt applied, each startTimestamp waited for."""
    release = parse_client_version(version)
    item: FaultItem | None = None
    flips: list[tuple[int, bool]] = []

    def expire(now_ms: int) -> None:
        was_out = bool(flips) and not flips[-1][1]
        if item is not None and was_out and is_available(item, now_ms, release):
            flips.append((item.start_timestamp_ms, True))

    for attempt in attempts:
        expire(attempt.time_ms)
        item = update_fault_item(
            item, "b", attempt.latency_ms, attempt.isolation, attempt.reachable, attempt.time_ms, release
        )
        was_available = not flips or flips[-1][1]
        if is_available(item, attempt.time_ms, release) != was_available:
            flips.append((attempt.time_ms, not was_available))
    expire(end_ms)
    return flips


def steps_of(attempts: Iterable[Attempt], version: str, client_id: str = "p") -> Attempts:
    builder = AttemptsBuilder(client_id, version)
    for attempt in attempts:
        builder.add(attempt.time_ms, attempt.latency_ms, attempt.isolation, attempt.reachable)
    return builder.attempts


def when(flips: Iterable[Flip]) -> list[tuple[int, bool]]:
    return [(flip.changed_at_ms, flip.available) for flip in flips]


def flips_of(attempts: list[Attempt], cuts: Iterable[int], version: str) -> list[Flip]:
    """Of one producer's attempts, a batch at a time, and of the time after them."""
    board, flips = Board(), list[Flip]()
    for start, end in itertools.pairwise([0, *sorted(cuts), len(attempts)]):
        flips += board.advance([steps_of(attempts[start:end], version)], None, IDLE_MS)[0]
    return flips + board.advance([], 2_000_000, IDLE_MS)[0]


@examples(400)
@given(attempts_in_order, st.sampled_from(VERSIONS), st.lists(st.integers(0, 25), max_size=4))
def test_a_log_of_attempts_flips_alike_however_it_is_cut(
    attempts: list[Attempt], version: str, cuts: list[int]
) -> None:
    assert when(flips_of(attempts, cuts, version)) == flips_one_by_one(attempts, version, 2_000_000)


def test_a_thousand_quick_attempts_are_one_step() -> None:
    assert len(steps_of([Attempt(ms, 3) for ms in range(1_000)], "5.5.0").steps) == 1


def test_one_slow_send_is_two_rows_out_until_its_time_has_come() -> None:
    """4.9.8: 600 ms shut the broker out for 30 s; a clock event tells that they are over."""
    board = Board()
    (out,), (health,) = board.advance([steps_of([Attempt(10_000, 600)], "4.9.8")], None, IDLE_MS)
    assert out == Flip("p", "4.9.8", 600, False, 40_000, False, 10_000)
    assert (health.unavailable_producers, health.producers, health.unavailable_until_ms) == (1, 1, 40_000)
    assert board.advance([], 39_999, IDLE_MS) == ([], [])
    (back,), (health,) = board.advance([], 45_000, IDLE_MS)
    assert (back.available, back.changed_at_ms, back.start_timestamp_ms) == (True, 40_000, 40_000)
    assert (health.unavailable_producers, health.unavailable_until_ms) == (0, None)


def test_health_counts_the_producers_that_avoid_the_broker() -> None:
    """Two of three, by two releases; the earlier one comes back first."""
    board = Board()
    board.advance([steps_of([Attempt(1_000, 3)], "5.5.0", client) for client in "abc"], None, IDLE_MS)
    _, health = board.advance(
        [
            steps_of([Attempt(5_000, 600)], "5.5.0", "a"),
            steps_of([Attempt(6_000, 600)], "4.9.8", "b"),
        ],
        60_000,
        IDLE_MS,
    )
    assert [(row.changed_at_ms, row.unavailable_producers, row.producers) for row in health] == [
        (5_000, 1, 3),
        (6_000, 2, 3),
        (7_000, 1, 3),
        (36_000, 0, 3),
    ]
    assert [row.unavailable_until_ms for row in health] == [7_000, 36_000, 36_000, None]


def test_a_producer_that_stopped_sending_is_forgotten_once_its_item_is_available() -> None:
    board = Board()
    board.advance([steps_of([Attempt(1_000, 3)], "5.5.0", "gone")], None, IDLE_MS)
    board.advance([steps_of([Attempt(2_000_000, 3)], "5.5.0", "here")], None, IDLE_MS)
    assert sorted(board.items) == ["here"]


def test_a_producer_that_never_comes_back_by_itself_is_forgotten_after_a_day_of_silence() -> None:
    board = Board()
    board.advance([steps_of([Attempt(10_000, 3, True, False)], "5.1.4")], 80_000_000, IDLE_MS)
    assert set(board.items) == {"p"}
    flips, (health,) = board.advance([], 86_410_000, IDLE_MS)
    assert not board.items
    assert not flips
    assert health == Health(0, 0, None, 86_410_000)


def test_a_slow_run_ends_at_every_fifth_second_and_a_quick_one_after_half_a_minute_of_silence() -> None:
    """What holds at those moments is then known from the steps, however a log is cut."""
    slow = [Attempt(ms, 600) for ms in range(12_000, 26_000, 500)]
    assert [(step.from_ms, step.to_ms) for step in steps_of(slow, "4.9.8").steps] == [
        (12_000, 15_000),
        (15_500, 20_000),
        (20_500, 25_000),
        (25_500, 25_500),
    ]
    quick = [Attempt(ms, 3) for ms in (0, 29_999, 59_998, 89_998)]
    assert [(step.from_ms, step.to_ms) for step in steps_of(quick, "4.9.8").steps] == [(0, 59_998), (89_998, 89_998)]


class Unwalked(dict[str, Item]):
    """Items that may be looked up and not walked through."""

    def values(self) -> Never:
        raise AssertionError("all items were walked through for one flip")


def test_a_flip_is_reported_without_a_look_at_every_producer() -> None:
    """Ten thousand producers that flip together would be a hundred million looks."""
    board = Board(Unwalked())
    clients = [steps_of([Attempt(1_000 + number, 3_500)], "4.9.8", f"c{number}") for number in range(200)]
    flips, health = board.advance(clients, None, IDLE_MS)
    assert (len(flips), health[-1].unavailable_producers) == (200, 200)
    assert health[-1].unavailable_until_ms == max(item.start_timestamp_ms for _, item in board.items.items())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_flip_reports_the_same_latency_however_its_attempts_are_cut(version: str) -> None:
    latencies = {1_000: 10, 2_000: 700, 3_000: 11, 4_100: 12, 9_000: 13, 40_000: 14}
    attempts = [Attempt(*of) for of in latencies.items()]
    whole = flips_of(attempts, (), version)
    assert [flip.available for flip in whole] == [False, True]
    for cut in range(1, len(attempts)):
        assert flips_of(attempts, (cut,), version) == whole
    assert flips_of(attempts, range(1, len(attempts)), version) == whole
