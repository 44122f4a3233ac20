"""What the rivals keep is the rule of `udfs/`, and whether they wrote the same is said as it is."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.bench.rivals.agreement import Flips, compare
from tests.lab.bench.rivals.broker_items import Attempt, apply_attempt
from tests.lab.bench.rivals.work import Clock, Work, mark_ready, note_flips, read_flips, read_report
from udfs.producers.attempts import AttemptsBuilder
from udfs.producers.board import Board, Item

LATENCIES = ((0, 10), (1_000, 700), (1_500, 12), (4_000, 3_500), (9_000, 20), (40_000, 600), (45_000, 30), (99_000, 9))


def attempts(version: str) -> list[Attempt]:
    return [Attempt("c", "client", version, "broker-a", latency_ms, at_ms) for at_ms, latency_ms in LATENCIES]


@pytest.mark.parametrize("version", ["4.9.8", "5.1.4", "5.5.0"])
def test_a_rival_keeps_a_fault_item_as_the_board_of_ours_does(version: str) -> None:
    item: Item | None = None
    rows, board = [], Board()
    flips = []
    for attempt in attempts(version):
        item, found = apply_attempt(item, attempt)
        rows += found
        builder = AttemptsBuilder(attempt.client_id, version)
        builder.add(attempt.event_time_ms, attempt.latency_ms, False, True)
        flips += board.advance([builder.attempts], None, 1 << 40)[0]
    assert [
        (row["available"], row["changed_at"], row["start_timestamp"], row["current_latency_ms"]) for row in rows
    ] == [(flip.available, flip.changed_at_ms, flip.start_timestamp_ms, flip.current_latency_ms) for flip in flips]
    assert len(rows) >= 4


def flips_of(*rows: tuple[int, int, bool, int]) -> Flips:
    """(latency, start, available, changed at)."""
    return Counter(("b", "c", "5.5.0", latency, False, start, out, at) for latency, start, out, at in rows)


def test_rows_that_differ_from_the_loops_are_counted_and_what_the_clock_reports_is_more() -> None:
    first, second = (700, 30, False, 10), (8, 30, True, 30)
    of_loop = flips_of(first, second)
    assert compare(of_loop, of_loop) == "2 the same"
    assert compare(of_loop + flips_of((9, 90, True, 90)), of_loop) == "3 1 more, by the clock"
    assert compare(flips_of(first), of_loop) == "1 1 missing"
    assert compare(of_loop + flips_of(first), of_loop) == "3 1 other"


def test_a_drain_is_timed_from_the_last_warm_event_to_the_last_commit(tmp_path: Path) -> None:
    work = Work("kafka:9092", tmp_path, 100, 30, 1.0, "group")
    mark_ready(work)
    clock = Clock(work)
    assert [clock.count(40), clock.count(40), clock.count(20)] == [False, False, True]
    note_flips(work, [{"changed_at": 5, "available": False}, {"changed_at": 6, "available": True}])
    clock.report()
    drained = read_report(work)
    assert drained.events == 60
    assert drained.began <= drained.ended
    assert [event_ms for event_ms, _ in read_flips(work)] == [5]
    assert not Clock(replace(work, events=0)).count(1_000_000), "a live one has no end"
