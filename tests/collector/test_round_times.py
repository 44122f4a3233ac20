"""When things happened, whatever the clocks of brokers and clients say; and whose clock is told to be out of step."""

from dataclasses import replace
from typing import Any

import pytest

from schemas.events import HEARTBEATS, PULLS
from streaming.collector.reading import Reading
from streaming.collector.round_events import compute_round
from streaming.collector.round_memory import (
    FIRST_SEEN_MS,
    MAX_REPORTED,
    MIN_ROUNDS,
    Machine,
    Memory,
    Skew,
    Stamp,
    pick_reported,
    update_skews,
)
from tests.collector.rounds import (
    BROKER_A,
    BROKER_B,
    GROUP,
    NOW,
    SOLO,
    TWIN,
    TWINS,
    events_of,
    process_queue,
    reading,
    round_clock,
    running,
    view,
)

SECOND, HOUR = 1_000, 3_600_000
STEP = 10 * SECOND
SOLO_ID = SOLO[0]
MEMBER = (GROUP, SOLO_ID)


def at(heartbeat_ms: int, pull_ms: int | None = None, **fields: Any) -> Reading:
    reported = {MEMBER: (running(process_queue(0, pull_ms)),)} if pull_ms else {}
    return reading(view(BROKER_A, (*SOLO[:2], heartbeat_ms)), **{"running": reported, **fields})


def times(topic: str, *readings: Reading) -> list[list[int]]:
    """Event times relative to NOW, in seconds, of each round."""
    return [
        [(event["event_time_ms"] - NOW) // SECOND for event in events]
        for events in events_of(topic, *readings, step_ms=STEP)
    ]


@pytest.mark.parametrize("skew_s", [0, 1, 12, 50, 95, 150, 3_600, -1, -12, -50, -95, -150, -3_600])
def test_what_moved_since_the_round_before_happened_since_then(skew_s: int) -> None:
    stamps = [NOW + number * STEP + (skew_s - 4) * SECOND for number in range(12)]
    for topic in (HEARTBEATS, PULLS):
        for number, (said,) in enumerate(times(topic, *(at(stamp, stamp) for stamp in stamps))):
            earliest = number * 10 - (10 if number else FIRST_SEEN_MS // SECOND)
            assert earliest <= said <= number * 10
            assert skew_s or said == number * 10 - 4


@pytest.mark.parametrize("skew_s", [-3_600, -150, 150])
def test_a_heartbeat_that_is_seen_first_is_about_now_at_a_broker_whose_clock_cannot_be_right(skew_s: int) -> None:
    channels = ((SOLO_ID, SOLO[1], NOW + skew_s * SECOND), ("late", "10.0.0.9:1", NOW + (skew_s - 80) * SECOND))
    (events,) = events_of(HEARTBEATS, reading(view(BROKER_A, *channels)))
    assert {said["client_id"]: said["event_time_ms"] - NOW for said in events} == {
        SOLO_ID: 0,
        "late": -80 * SECOND,
    }


@pytest.mark.parametrize("ahead_ms", [-150_000, -45_000, 0, 20_000, 45_000, 150_000, 3_600_000])
def test_of_a_client_that_reconnects_the_old_channel_ends_before_the_new_one_begins(ahead_ms: int) -> None:
    """By whatever clock its broker tells both: times in another order would make them twins."""
    then, end, begin = NOW + 30_000, NOW + 15_000 + ahead_ms, NOW + 25_000 + ahead_ms
    old = (TWIN, "10.0.0.1:51", NOW - 15_000 + ahead_ms)
    listed = view(BROKER_A, (*old[:2], end), (TWIN, "10.0.0.1:52", begin))
    _, events = events_of(HEARTBEATS, reading(view(BROKER_A, old)), reading(listed), step_ms=then - NOW)
    at_ms = {one["client_addr"]: one["event_time_ms"] for one in events}
    assert NOW <= at_ms["10.0.0.1:51"] <= at_ms["10.0.0.1:52"] <= then


@pytest.mark.parametrize("ahead_ms", [-150_000, -95_000, 95_000])
def test_a_broker_whose_clock_is_known_to_be_off_is_reported_by_ours(ahead_ms: int) -> None:
    sent_ms = [NOW + number * 75_000 - 10_000 for number in range(8)]
    rounds = [reading(view(BROKER_A, (TWIN, "10.0.0.1:51", at_ms + ahead_ms))) for at_ms in sent_ms]
    found = [one["event_time_ms"] for events in events_of(HEARTBEATS, *rounds, step_ms=75_000) for one in events]
    off_ms = [found_ms - at_ms for found_ms, at_ms in zip(found, sent_ms, strict=True)]
    assert max(abs(one) for one in off_ms[4:]) <= 40_000  # half a round, which is how well the clock can be known


def test_what_did_not_move_keeps_the_time_it_was_reported_with() -> None:
    orderly = {MEMBER: (replace(running(), consume_orderly=True),)}
    moved = NOW - 45 * SECOND
    _, *later = times(HEARTBEATS, at(NOW - 50 * SECOND), at(moved), at(moved, running=orderly))
    assert later == [[0], [0]]  # it moved: not before the round before; then it is published anew for another reason


def test_a_pull_of_a_member_that_was_not_asked_for_a_while_may_be_as_old_as_its_last_answer() -> None:
    assert times(PULLS, at(NOW, NOW - SECOND), *[at(NOW)] * 29, at(NOW, NOW + 60 * SECOND))[-1] == [60]


def test_a_client_whose_clock_was_set_back_is_heard_at_once() -> None:
    rounds = [at(NOW, NOW), *[at(NOW - HOUR, NOW - HOUR)] * 2]
    assert times(PULLS, *rounds)[1:] == [[0], []]
    assert times(HEARTBEATS, *rounds)[1] == [0]


def test_an_older_answer_of_a_twin_is_no_pull() -> None:
    answers = [running(process_queue(0, NOW + pull_s * SECOND)) for pull_s in (5, 1, 5, 7)]  # of each in turn
    rounds = [reading(view(BROKER_A, *TWINS), running={(GROUP, TWIN): (each,)}) for each in answers]
    assert [len(pulls) for pulls in times(PULLS, *rounds)] == [1, 0, 0, 1]


# Skews


def reported_after(rounds: int, skew_ms: int, *, late_ms: int = 2 * SECOND, took_ms: int = 0) -> list[dict[str, Any]]:
    """`skews` after so many rounds of a broker and a client that are both so far ahead."""
    memory, last = Memory(), Memory()
    for number in range(rounds):
        now = NOW + number * STEP
        stamp = now - late_ms + skew_ms
        whole = at(stamp, stamp, took_ms=took_ms)
        last = memory
        _, memory = compute_round(memory, whole, now)
    return list(round_clock(whole, now, last).get("skews", []))


@pytest.mark.parametrize("skew_s", [12, 50, 150, 3_600, -20, -50, -150, -3_600])
def test_a_skew_over_10_s_is_reported_of_broker_and_client_after_some_rounds(skew_s: int) -> None:
    assert reported_after(MIN_ROUNDS, skew_s * SECOND) == []
    skews = reported_after(MIN_ROUNDS + 1, skew_s * SECOND, late_ms=SECOND)
    assert [(skew["role"], skew["machine"]) for skew in skews] in (
        [("broker", "broker-a"), ("client", SOLO_ID)],
        [("client", SOLO_ID), ("broker", "broker-a")],
    )
    assert all(abs(skew["ahead_ms"] - skew_s * SECOND) <= STEP // 2 for skew in skews)


@pytest.mark.parametrize("skew_s", [-9, -1, 0, 1, 9])
@pytest.mark.parametrize("late_s", [0, 5, 9])
def test_clocks_within_10_s_are_not_reported(skew_s: int, late_s: int) -> None:
    assert reported_after(20, skew_s * SECOND, late_ms=late_s * SECOND) == []


def test_a_round_that_takes_long_makes_no_skew() -> None:
    assert reported_after(20, 0, late_ms=25 * SECOND, took_ms=20 * SECOND) == []


def test_a_clock_that_was_put_right_is_no_longer_reported() -> None:
    machine = Machine("client", "c")
    skews: dict[Machine, Skew] = {}
    for number in range(5):
        now = NOW + number * STEP
        skews = update_skews(skews, [Stamp(machine, now + HOUR, now - STEP)], now)
    assert pick_reported(skews) == [{"machine": "c", "role": "client", "ahead_ms": HOUR + STEP // 2}]
    now += STEP
    assert pick_reported(update_skews(skews, [Stamp(machine, now, now - STEP)], now)) == []


@pytest.mark.parametrize("ppm", [-200, -20, 20, 200])
def test_a_clock_that_drifts_stays_known(ppm: int) -> None:
    machine = Machine("client", "c")
    skews: dict[Machine, Skew] = {}
    for number in range(8_640):
        now = NOW + number * STEP
        ahead_ms = HOUR + number * STEP * ppm // 1_000_000
        happened = now - (number * 3_700 % STEP)
        skews = update_skews(skews, [Stamp(machine, happened + ahead_ms, now - STEP)], now)
        if number >= MIN_ROUNDS:
            assert skews[machine].is_reported
            assert abs(skews[machine].ahead_ms - ahead_ms) < STEP // 2


@pytest.mark.parametrize("stood_ms", [-400, -5, 5, 400])
def test_a_time_that_was_read_a_little_before_it_was_told_does_not_unlearn_a_clock(stood_ms: int) -> None:
    machine = Machine("client", "c")
    exact = {machine: Skew(HOUR - 2, HOUR + 2, 100)}
    after = update_skews(exact, [Stamp(machine, NOW + HOUR - stood_ms, NOW)], NOW)
    (reported,) = pick_reported(after)
    assert abs(int(str(reported["ahead_ms"])) - HOUR) <= 400


def test_the_furthest_out_of_step_are_reported_when_there_are_many() -> None:
    skews = {Machine("client", f"c{number}"): Skew(number * SECOND, number * SECOND, 9) for number in range(500)}
    reported = pick_reported(skews)
    assert (len(reported), reported[0]["machine"], reported[-1]["machine"]) == (MAX_REPORTED, "c499", "c400")


def test_a_machine_that_is_gone_is_forgotten() -> None:
    memory = Memory()
    for number in range(3):
        now = NOW + number * STEP
        _, memory = compute_round(memory, at(now, now), now)
    assert {machine.name for machine in memory.skews} == {"broker-a", SOLO_ID}
    _, memory = compute_round(memory, reading(view(BROKER_A)), now + STEP)
    assert {machine.name for machine in memory.skews} == {"broker-a"}
    assert memory.member_rounds == {}


# The collector's own clock


def test_after_a_step_back_everything_is_reported_again_and_nothing_is_placed_by_the_time_before() -> None:
    whole = at(NOW, NOW)
    _, memory = compute_round(Memory(), whole, NOW + HOUR)
    back = memory.after_a_step_back(NOW)
    assert (back.broker_rounds, back.member_rounds, back.skews) == ({}, {}, {})
    events, _ = compute_round(back, at(NOW + SECOND, NOW + SECOND), NOW + STEP)
    found = sorted((topic, (event["event_time_ms"] - NOW) // SECOND) for topic, event in events)
    assert found == [(HEARTBEATS, 1), (PULLS, 1)]


def test_a_pull_at_a_broker_that_missed_the_round_has_the_address_it_listed_last() -> None:
    """Or as it lists it itself; of two channels, nobody knows which."""
    other = ("10.0.0.2@solo", "10.0.0.2:42", NOW)
    for channels, expected in (((SOLO,), SOLO[1]), ((SOLO, other), None)):
        both = reading(view(BROKER_A, *channels), view(BROKER_B, SOLO))
        pulled = {MEMBER: (running(process_queue(0, NOW + STEP)),)}
        missed = reading(view(BROKER_B, SOLO), brokers_asked=("broker-a", "broker-b"), running=pulled)
        _, (pull,) = events_of(PULLS, both, missed, step_ms=STEP)
        assert (pull["client_id"], pull["client_addr"]) == (SOLO_ID, expected)
