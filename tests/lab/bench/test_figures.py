"""The arithmetic of the benches; no time is measured here."""

from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from schemas.events import PULLS
from tests.lab.bench import cluster, start
from tests.lab.bench.cluster import Form
from tests.lab.bench.events import LARGE, SMALL, Fleet, Sender
from tests.lab.bench.figures import Figures, Percentiles, latencies_of, percentiles_of
from tests.lab.bench.process_tree import ENDED, Process, TreeWatch, cores_by_name, cpu_of, peak_of, resident_by_name
from tests.lab.bench.soak import COMMITS, PUBLISHED, RATES, SMALL_FILES, WIDTH, Sample, figures_of, spans_of, table_of
from udfs.rocketmq.allocation import allocate_all
from udfs.rocketmq.model import MessageQueue


def test_percentiles_are_samples_themselves_by_nearest_rank() -> None:
    assert percentiles_of(range(1, 101)) == Percentiles(100, 50, 95, 100)
    assert percentiles_of([7]) == Percentiles(1, 7, 7, 7)
    assert percentiles_of([]) == Percentiles(0, 0, 0, 0)
    assert latencies_of([(99, 120), (100, 150), (199, 900), (200, 201)], 100, 200) == Percentiles(2, 50, 701, 701)


def test_rows_have_the_median_of_several_runs_and_the_longest_phases_of_a_batch() -> None:
    figures = Figures()
    figures.add_spread("a", [3.0, 1.0, 2.0], "{:.1f} s", "beside")
    batch = SimpleNamespace(durationMs={"triggerExecution": 190, "addBatch": 160, "walCommit": 9, "latestOffset": 0})
    figures.add_phases("a", [batch])
    assert figures.rows == [
        ("a", "2.0 s", "1.0 s to 3.0 s", "beside"),
        ("phases, a", "190 ms", "median batch", "addBatch 160, walCommit 9"),
    ]


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


def test_cpu_between_two_samples_is_a_straight_line() -> None:
    watch = TreeWatch(0)
    watch._times, watch._cpu = [10.0, 20.0], [1.0, 3.0]
    assert [watch.cpu_between(0.0, moment) for moment in (10.0, 15.0, 20.0, 99.0)] == [0.0, 1.0, 2.0, 2.0]


def test_a_process_that_has_just_been_forked_is_no_peak() -> None:
    """For a moment it counts as large as its parent: two samples, one after the other, must both have it."""
    samples = [{"JVM": 700}, {"JVM": 700, "chmod": 700}, {"JVM": 720}]
    assert peak_of(samples) == {"JVM": 720}
    assert peak_of(samples[:1]) == {"JVM": 700}
    assert peak_of([]) == {}


@pytest.mark.parametrize("fleet", [SMALL, LARGE])
def test_a_fleet_pulls_by_avg(fleet: Fleet) -> None:
    events = [event for topic, event in fleet.touch([7], 1) if topic == PULLS]
    client_ids = sorted({event["client_id"] for event in events})
    queues = {MessageQueue(one["topic"], one["broker_name"], one["queue_id"]): one["client_id"] for one in events}
    shares = allocate_all("AVG", "g", sorted(queues), client_ids)
    assert {mq: name for name, share in shares.items() for mq in share} == queues


def test_a_producer_avoids_a_broker_after_a_slow_send() -> None:
    sender = Sender(1, 3)
    sent = [event for number in range(3_000) for _, event in [sender.send(number, number)]]
    slow = next(event for event in sent if event["latency_ms"] > 550)
    own = [one for one in sent if one["client_id"] == slow["client_id"]]
    assert own[own.index(slow) + 1]["broker_name"] != slow["broker_name"]


def sample_of(at: float, **more: float) -> Sample:
    names = ("CPU, cores", "state, MB", COMMITS, PUBLISHED, SMALL_FILES)
    return {"at": at, **{name: more.get(name, 0.0) for name in names}}


def test_a_span_has_the_means_of_its_samples_its_rates_and_the_most_small_files_of_a_table() -> None:
    samples = [
        sample_of(
            at, **{"CPU, cores": at, SMALL_FILES: 10 * at, COMMITS: at, PUBLISHED: 1_000 * at, "state, MB": 4 * at}
        )
        for at in range(101)
    ]
    latencies = {"FaultItem": [(5.0, 70.0), (95.0, 80.0)], "alert": []}
    tenth = figures_of(90, 100, samples, latencies)
    assert tenth == {
        RATES[PUBLISHED]: 1_000.0,
        RATES[COMMITS]: 1.0,
        "FaultItem, event to Delta row, p50, ms": 80.0,
        "FaultItem, event to Delta row, p95, ms": 80.0,
        "alert, event to Delta row, p50, ms": 0,
        "alert, event to Delta row, p95, ms": 0,
        "CPU, cores": 95.0,
        "state, MB": 380.0,
        SMALL_FILES: 1_000,
    }
    nearest = figures_of(0, 10, [sample_of(30.0, **{"CPU, cores": 3.0}), sample_of(60.0)], {})
    assert nearest["CPU, cores"] == 3.0


def test_a_soak_that_ends_early_shows_the_loads_that_it_reached() -> None:
    complete = spans_of(100.0, 160.0, 60.0)
    assert complete["first tenth"] == (100.0, 106.0)
    assert complete["last tenth"] == (154.0, 160.0)
    assert [complete["quiet third"], complete["busy third"]] == [(110.0, 130.0), (130.0, 150.0)]
    early = spans_of(100.0, 125.0, 60.0)
    assert early["quiet third"] == (110.0, 125.0)
    assert "busy third" not in early


def test_the_table_of_a_soak_has_a_column_a_span_within_its_width() -> None:
    name = "FaultItem, event to Delta row, p50, ms"
    first, last, quiet = ({name: value, "memory, MiB": 1_000_000.0} for value in (4_000.0, 5_000.0, 5.0))
    console = Console(width=WIDTH, record=True, file=StringIO())
    console.print(table_of({"first tenth": first, "last tenth": last, "quiet third": quiet, "busy third": last}, ""))
    assert f"│ {name} │     4,000 │     5,000 │    1.25 │         5 │     5,000 │" in console.export_text()


def form_of(*seconds: float) -> Form:
    return Form(list(seconds), 21, {"JVM": 1 << 20})


def test_two_workers_are_compared_with_the_one_of_their_turn() -> None:
    forms = {
        "one process": [form_of(9.0, 4.0)],
        "one worker": [form_of(9.0, 4.0, 6.0), form_of(9.0, 10.0, 10.0)],
        "two workers": [form_of(5.0, 3.0, 3.0), form_of(5.0, 5.0, 5.0)],
    }
    figures = cluster.figures_of(1, forms)
    assert figures.values["cluster, two workers / one"] == {"median": 0.55, "low": 0.5, "high": 0.6}
    assert ("cluster, one worker, all touched", "8.0 s", "4.0 s to 10.0 s", "1 groups, 21 rows") in figures.rows


def test_a_start_over_neglected_tables_is_compared_with_the_fresh_one_of_its_turn() -> None:
    figures = start.figures_of(3_000, {"fresh": [10.0, 20.0], "neglected": [11.0, 20.0]}, {"later": [3, 5]})
    assert figures.values["start, neglected / fresh"] == {"median": 1.05, "low": 1.0, "high": 1.1}
    assert figures.rows[-1] == ("start, small files later", "4", "3 to 5", "of 18,000 in all neglected tables")
