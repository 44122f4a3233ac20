"""What the rivals keep is the rule of `udfs/`, and whether they wrote the same is said as it is."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.bench.figures import Percentiles
from tests.lab.bench.process_tree import Memory, peak_of
from tests.lab.bench.rivals.agreement import Agreement, Flips, compare
from tests.lab.bench.rivals.broker_items import Attempt, apply_attempt
from tests.lab.bench.rivals.measure import Contender, Drain, Live, RivalsResult, comparison_table, notes
from tests.lab.bench.rivals.work import Clock, Work, mark_ready, note_flips, read_flips, read_report
from tests.lab.bench.test_figures import printed
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


def test_the_same_rows_are_the_same_and_what_the_clock_reports_is_more() -> None:
    of_loop = flips_of((700, 30, False, 10), (8, 30, True, 30))
    assert compare(of_loop, of_loop) == Agreement(2)
    assert compare(of_loop, of_loop).text == "the same"
    more = of_loop + flips_of((9, 90, True, 90))
    assert compare(more, of_loop) == Agreement(3, by_clock=1)


def test_a_row_that_is_missing_or_twice_or_of_another_latency_is_reported() -> None:
    of_loop = flips_of((700, 30, False, 10), (8, 30, True, 30))
    assert compare(flips_of((700, 30, False, 10)), of_loop) == Agreement(1, missing=1)
    assert compare(of_loop + flips_of((700, 30, False, 10)), of_loop) == Agreement(3, other=1)
    assert compare(flips_of((700, 30, False, 10), (13, 30, True, 30)), of_loop) == Agreement(2, latency=1)
    assert Agreement(2, latency=1, missing=3).text == "3 missing, 1 with another latency"


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


def test_a_live_contender_never_is_through(tmp_path: Path) -> None:
    assert not Clock(Work("kafka:9092", tmp_path, 0, 0, 0.2, "group")).count(1_000_000)


def test_the_contenders_stand_side_by_side_in_100_columns_and_who_is_absent_is_said() -> None:
    memory = Memory(1_234, 200, 900, 134)
    drain = Drain(228_000.0, 9.5, memory, Agreement(334))
    live = Live(Percentiles(100, 671, 961, 1_200), 1.24, memory, Agreement(105, by_clock=4))
    ours = Contender("balancewatch", (), drain, live)
    gone = Contender("bytewax", ("bytewax==0.21.1",), absent="the package index cannot be reached")
    alone = replace(ours, name="plain loop", drain=replace(drain, flips=None), live=None)
    result = RivalsResult(1_000_000, 250_000, 60, [ours, gone, alone])
    text = printed(comparison_table(result))
    assert max(map(len, text.splitlines())) <= 100
    assert "228,000/s" in text
    assert "bytewax: not measured: the package index cannot be reached" in notes(result)


def test_a_process_that_has_just_been_forked_is_no_peak() -> None:
    """For a moment it counts as large as its parent: two samples, one after the other, must both have it."""
    samples = [{"JVM": 700 << 20}, {"JVM": 700 << 20, "chmod": 700 << 20}, {"JVM": 720 << 20}]
    assert peak_of(samples).peak_mib == 720
    assert peak_of(samples[:1]).peak_mib == 700
    assert peak_of([]).peak_mib == 0
