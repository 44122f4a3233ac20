"""The arithmetic of the benches, and the tables they print; no time is measured here."""

from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console
from rich.table import Table

from tests.lab.bench.figures import (
    Percentiles,
    busiest,
    first_and_last_tenth,
    latencies_of,
    percentiles_of,
)
from tests.lab.bench.process_tree import ENDED, Process, cores_by_name, cpu_of, resident_by_name, value_at
from tests.lab.bench.soak import Sample, Stock, tenth_of, tenths_table

EMPTY = Stock(0, 0)


def test_percentiles_are_samples_themselves_by_nearest_rank() -> None:
    assert percentiles_of(range(1, 101)) == Percentiles(100, 50, 95, 100)
    assert percentiles_of([7]) == Percentiles(1, 7, 7, 7)
    assert percentiles_of([]) == Percentiles(0, 0, 0, 0)


def test_latencies_are_of_the_events_of_the_span_whenever_their_rows_came() -> None:
    assert latencies_of([(99, 120), (100, 150), (199, 900), (200, 201)], 100, 200) == Percentiles(2, 50, 701, 701)


def test_tenths_are_of_the_time_not_of_the_samples() -> None:
    first, last = first_and_last_tenth(1_000, 1_100)
    timed = [(1_000.0, "a"), (1_010.0, "b"), (1_010.5, "c"), (1_089.5, "d"), (1_090.0, "e"), (1_100.0, "f")]
    assert first.samples(timed) == ["a", "b"]
    assert last.samples(timed) == ["e", "f"]


def test_the_busiest_query_is_the_one_that_read_most_of_however_many_there_are() -> None:
    few, many = [SimpleNamespace(numInputRows=3)], [SimpleNamespace(numInputRows=rows) for rows in (1, 4)]
    assert busiest([few, many]) == many
    assert busiest([few]) == few
    assert busiest([]) == []


def test_cpu_of_a_process_that_ended_in_between_is_counted_once() -> None:
    before = [
        Process(1, "driver", 10.0, 1.0, 100),
        Process(2, "JVM", 5.0, 0.0, 200),
        Process(3, "other 1", 2.0, 0.0, 50),
    ]
    after = [Process(1, "driver", 11.0, 4.0, 100), Process(2, "JVM", 9.0, 0.0, 200)]  # 3 ended, having used 3 s in all
    cores = cores_by_name(before, after, 2.0)
    assert cores == {"JVM": 2.0, "driver": 0.5, ENDED: 0.5}
    assert sum(cores.values()) * 2.0 == cpu_of(after) - cpu_of(before)
    assert resident_by_name(before) == {"JVM": 200, "driver": 100, "other 1": 50}


@pytest.mark.parametrize(("moment", "cpu"), [(0.0, 1.0), (10.0, 1.0), (15.0, 2.0), (20.0, 3.0), (99.0, 3.0)])
def test_cpu_between_two_samples_lies_on_a_straight_line(moment: float, cpu: float) -> None:
    assert value_at([10.0, 20.0], [1.0, 3.0], moment) == cpu


def sample_of(at: float, **more: float) -> Sample:
    cores = {"driver": more.get("cores", 1.0)}
    small, commits = {"alerts": int(more.get("files", 0))}, {"alerts": int(more.get("commits", 0))}
    return Sample(at, cores, {"driver": 100.0}, small, commits, Stock(2, int(more.get("state", 0))), EMPTY, EMPTY)


def test_a_tenth_has_the_means_of_its_samples_and_the_most_small_files_of_a_table() -> None:
    samples = [sample_of(at, cores=at, files=10 * at, commits=at, state=4 * at) for at in range(101)]
    first, last = first_and_last_tenth(0, 100)
    tenth = tenth_of(last, samples, [(5.0, 70.0), (95.0, 80.0)], [])
    assert (tenth.samples, tenth.cores, tenth.small_files) == (11, {"driver": 95.0}, {"alerts": 1_000})
    assert (tenth.flips.p50, tenth.alerts.count) == (80.0, 0)
    assert (tenth.commits_per_second, tenth.state_bytes) == (1.0, 380.0)
    assert tenth_of(first, samples, [(5.0, 70.0)], []).flips.p50 == 70.0


def test_a_tenth_without_a_sample_takes_the_nearest_and_of_none_at_all_is_nothing() -> None:
    first, _ = first_and_last_tenth(0, 100)
    assert tenth_of(first, [sample_of(30.0, cores=3.0), sample_of(60.0)], [], []).cores == {"driver": 3.0}
    assert tenth_of(first, [], [], []).samples == 0


def printed(table: Table) -> str:
    stream = StringIO()
    Console(file=stream, width=100).print(table)
    return stream.getvalue()


def test_the_tenths_stand_side_by_side_in_100_columns() -> None:
    spans = first_and_last_tenth(0, 100)
    samples = [sample_of(at, files=7 if at > 50 else 5) for at in range(101)]
    early, late = (tenth_of(span, samples, [(1.0, 200.0), (99.0, 300.0)], []) for span in spans)
    text = printed(tenths_table(early, late, "1.7 minutes"))
    assert max(map(len, text.splitlines())) <= 100
    rows = [" ".join(line.replace("│", " ").split()) for line in text.splitlines()]
    assert "FaultItem, event to Delta row, p50 200 ms 300 ms 1.50" in rows
    assert "small files, alerts 5 7 1.40" in rows
