"""Offsets that move where nobody is known to have pulled are told; others are not."""

from dataclasses import replace
from typing import Any

from schemas.events import PULLS
from streaming.collector.reading import Reading
from streaming.collector.rocketmq_answers import OffsetWrapper
from streaming.collector.round_events import compute_round
from streaming.collector.round_memory import Memory
from tests.collector.rounds import BROKER_A, GROUP, NOW, SOLO, TOPIC, of, process_queue, reading, running, view
from udfs.rocketmq.own_names import REVIVE_GROUP

STEP = 10_000
MEMBER = (GROUP, SOLO[0])


def at(commit: int, end: int, pull_ms: int | None = None, **fields: Any) -> Reading:
    reported = {MEMBER: (running(process_queue(0, pull_ms)),)} if pull_ms else {}
    offsets = {(GROUP, (TOPIC, "broker-a", 0)): OffsetWrapper(end, commit, commit)}
    return reading(view(BROKER_A, SOLO), **{"running": reported, "offsets": offsets, **fields})


def said(*readings: Reading) -> list[list[tuple[int, int, bool]]]:
    """Commit offset, max offset and `offsets_only` of each round's pulls."""
    memory, found = Memory(), []
    for number, whole in enumerate(readings):
        events, memory = compute_round(memory, whole, NOW + number * STEP)
        pulls = of(PULLS, events)
        found.append([(each["commit_offset"], each["max_offset"], each.get("offsets_only", False)) for each in pulls])
    return found


def test_a_commit_that_advances_is_reported_while_the_member_is_not_asked() -> None:
    assert said(at(10, 20, NOW), at(15, 20), at(15, 20), at(20, 25)) == [
        [(10, 20, False)],
        [(15, 20, True)],
        [],
        [(20, 25, True)],
    ]


def test_a_commit_that_stands_still_while_messages_come_is_reported() -> None:
    assert said(at(10, 20, NOW), at(10, 30), at(10, 40)) == [[(10, 20, False)], [(10, 30, True)], [(10, 40, True)]]


def test_a_pull_reports_the_offsets_and_is_reported_once() -> None:
    assert said(at(10, 20, NOW), at(15, 20, NOW + STEP)) == [[(10, 20, False)], [(15, 20, False)]]


def test_a_queue_that_was_not_pulled_again_reports_its_offsets_although_its_member_answered() -> None:
    assert said(at(10, 20, NOW), at(10, 30, NOW)) == [[(10, 20, False)], [(10, 30, True)]]


def test_a_group_whose_members_describe_no_queues_is_known_by_its_offsets() -> None:
    empty = {MEMBER: (running(),)}
    assert said(at(10, 20, running=empty), at(15, 25, running=empty)) == [[(10, 20, True)], [(15, 25, True)]]


def test_nobody_is_named_as_a_puller() -> None:
    events, _ = compute_round(Memory(), at(10, 20), NOW)
    (event,) = of(PULLS, events)
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


def test_the_revive_log_counts_as_read_behind_its_newest_finished_checkpoint() -> None:
    assert said(revived(0, 0), revived(0, 1), revived(7, 9), revived(8, 9)) == [
        [(0, 0, True)],
        [(1, 1, True)],
        [(8, 9, True)],
        [(9, 9, True)],
    ]


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


def test_a_revive_log_that_nobody_reads_is_published_as_it_grows() -> None:
    assert said(revived(7, 9), revived(7, 19), revived(7, 29)) == [[(8, 9, True)], [(8, 19, True)], [(8, 29, True)]]


def test_retry_topics_and_groups_without_a_commit_describe_nothing() -> None:
    retry = {(GROUP, (f"%RETRY%{GROUP}", "broker-a", 0)): OffsetWrapper(9, 8, 8)}
    assert said(at(-1, 20), at(-1, 30), at(0, 0, offsets=retry)) == [[], [], []]


def test_offsets_of_a_group_that_is_gone_are_forgotten() -> None:
    _, memory = compute_round(Memory(), at(10, 20), NOW)
    _, kept = compute_round(memory, replace(at(10, 20, offsets={}), brokers_asked=("broker-a", "broker-b")), NOW)
    assert len(kept.offsets) == 1
    _, gone = compute_round(memory, reading(view(BROKER_A)), NOW)
    assert gone.offsets == {}
