"""Offsets that move where nobody is known to have pulled are told; others are not."""

from dataclasses import replace
from typing import Any

import pytest

from schemas.events import PULLS
from streaming.collector.reading import Reading
from streaming.collector.rocketmq_answers import OffsetWrapper
from streaming.collector.round_events import compute_round
from streaming.collector.round_memory import Memory
from tests.collector.rounds import BROKER_A, GROUP, NOW, SOLO, TOPIC, events_of, process_queue, reading, running, view
from udfs.rocketmq.own_names import REVIVE_GROUP

STEP = 10_000
MEMBER = (GROUP, SOLO[0])


def at(commit: int, end: int, pull_ms: int | None = None, **fields: Any) -> Reading:
    reported = {MEMBER: (running(process_queue(0, pull_ms)),)} if pull_ms else {}
    offsets = {(GROUP, (TOPIC, "broker-a", 0)): OffsetWrapper(end, commit, commit)}
    return reading(view(BROKER_A, SOLO), **{"running": reported, "offsets": offsets, **fields})


def said(*readings: Reading) -> list[list[tuple[int, int, bool]]]:
    """Commit offset, max offset and `offsets_only` of each round's pulls."""
    return [
        [(each["commit_offset"], each["max_offset"], each.get("offsets_only", False)) for each in pulls]
        for pulls in events_of(PULLS, *readings, step_ms=STEP)
    ]


def test_no_puller_is_named() -> None:
    ((event,),) = events_of(PULLS, at(10, 20))
    assert (event["client_id"], event["client_addr"], event["pull_status"]) == (None, None, None)
    assert (event["pull_offset"], event["event_time_ms"]) == (10, NOW)


def test_a_queue_with_waiting_messages_is_published_each_minute_though_nothing_moves() -> None:
    rounds = said(*[at(10, 20, NOW)] * 14)
    assert [number for number, pulls in enumerate(rounds) if pulls] == [0, 6, 12]
    assert rounds[6] == [(10, 20, True)]
    assert [number for number, pulls in enumerate(said(*[at(20, 20, NOW)] * 14)) if pulls] == [0]


def revived(commit: int, end: int) -> Reading:
    log = ("rmq_sys_REVIVE_LOG_c", "broker-a", 0)
    return reading(view(BROKER_A), offsets={(REVIVE_GROUP, log): OffsetWrapper(end, commit, -1)})


def test_acks_behind_the_newest_checkpoint_count_as_read_once_the_revive_log_is_quiet() -> None:
    """The offsets are those of a broker of 5.5.0 that works: 64 acks came late, then nothing, then a checkpoint."""
    rounds = said(*[revived(103, 168)] * 8, revived(103, 170), revived(169, 170))
    assert [pulls for pulls in rounds if pulls] == [
        [(104, 168, True)],
        [(168, 168, True)],
        [(168, 170, True)],
        [(170, 170, True)],
    ]
    assert rounds[6] == [(168, 168, True)]


def test_offsets_of_a_group_that_is_gone_are_forgotten() -> None:
    _, memory = compute_round(Memory(), at(10, 20), NOW)
    _, kept = compute_round(memory, replace(at(10, 20, offsets={}), brokers_asked=("broker-a", "broker-b")), NOW)
    assert len(kept.offsets) == 1
    _, gone = compute_round(memory, reading(view(BROKER_A)), NOW)
    assert gone.offsets == {}


EMPTY = {MEMBER: (running(),)}
RETRY = {(GROUP, (f"%RETRY%{GROUP}", "broker-a", 0)): OffsetWrapper(9, 8, 8)}


@pytest.mark.parametrize(
    ("reason", "rounds", "found"),
    [
        (
            "a commit advances while the member is not asked",
            [at(10, 20, NOW), at(15, 20), at(15, 20), at(20, 25)],
            [(10, 20, False), (15, 20, True), None, (20, 25, True)],
        ),
        (
            "messages come and the commit does not move",
            [at(10, 20, NOW), at(10, 30), at(10, 40)],
            [(10, 20, False), (10, 30, True), (10, 40, True)],
        ),
        ("a pull reports them", [at(10, 20, NOW), at(15, 20, NOW + STEP)], [(10, 20, False), (15, 20, False)]),
        ("the member answers without a pull", [at(10, 20, NOW), at(10, 30, NOW)], [(10, 20, False), (10, 30, True)]),
        (
            "members describe no queues",
            [at(10, 20, running=EMPTY), at(15, 25, running=EMPTY)],
            [(10, 20, True), (15, 25, True)],
        ),
        (
            "the revive log counts as read behind its newest finished checkpoint",
            [revived(0, 0), revived(0, 1), revived(7, 9), revived(8, 9)],
            [(0, 0, True), (1, 1, True), (8, 9, True), (9, 9, True)],
        ),
        (
            "a revive log without a reader grows",
            [revived(7, 9), revived(7, 19), revived(7, 29)],
            [(8, 9, True), (8, 19, True), (8, 29, True)],
        ),
        ("retry topics, no commit", [at(-1, 20), at(-1, 30), at(0, 0, offsets=RETRY)], [None, None, None]),
    ],
)
def test_offsets_are_reported_once_when_they_move(
    reason: str, rounds: list[Reading], found: list[tuple[int, int, bool] | None]
) -> None:
    assert said(*rounds) == [[each] if each else [] for each in found], reason
