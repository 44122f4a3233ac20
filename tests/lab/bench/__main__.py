"""`python -m tests.lab.bench`: throughput, latency, memory and CPU on an embedded Kafka.

Each measure runs in its own processes, one after the other. Compare ratios within a run; absolute figures are the
machine's. A table goes to stdout, all figures as JSON to a file, progress to stderr.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.lab.bench.apart import MeasureError, run_apart
from tests.lab.bench.assignments import measure_assignments
from tests.lab.bench.board import measure_board
from tests.lab.bench.cluster import measure_cluster
from tests.lab.bench.collector import measure_collector
from tests.lab.bench.drain import measure_drain
from tests.lab.bench.figures import Figures
from tests.lab.bench.history import measure_history
from tests.lab.bench.idle import measure_idle
from tests.lab.bench.latency import measure_latency
from tests.lab.bench.rivals.measure import measure_rivals
from tests.lab.bench.scratch import read_machine, write_report
from tests.lab.bench.sizing import measure_sizing
from tests.lab.bench.start import measure_start
from tests.lab.bench.timeline import measure_timeline
from tests.support.laboratory import say

WIDTH = 120
REPORT = Path(".bench/result.json")

EXAMPLES = """
examples:
  python -m tests.lab.bench                                      everything, about 2 hours
  python -m tests.lab.bench --quick                              a few minutes: does it work?
  python -m tests.lab.bench --only assignments
  python -m tests.lab.bench --only latency --only latency_aged   the second beside the first
"""


@dataclass(frozen=True)
class Measure:
    """`sizes` and `quick` are the arguments of `measure`; `minutes` it takes with `sizes`."""

    measure: Callable[..., Figures]
    sizes: tuple[Any, ...]
    quick: tuple[Any, ...]
    what: str
    minutes: float


DRAINED = 1_000_000
AGED = "the same over tables of 10,000 commits"
IN_BUCKET = "the same with checkpoints in a local S3 server"
WORKERS = "50,000 groups in one process, on one worker, on two"
RIVALS = "the same work by bytewax, quixstreams and a plain loop"

MEASURES = {
    "drain": Measure(measure_drain, (DRAINED, DRAINED // 4, 3), (200_000, 50_000, 2), "send latencies a second", 2),
    "latency": Measure(measure_latency, (60, 60, 20), (10, 15, 8), "event to Delta row at 1,000 events/s", 3.5),
    "latency_aged": Measure(measure_latency, (60, 60, 0, 10_000), (10, 15, 0, 500), AGED, 6),
    "latency_bucket": Measure(measure_latency, (60, 60, 20, 0, True), (10, 15, 8, 0, True), IN_BUCKET, 3.5),
    "timeline": Measure(measure_timeline, (60, 60), (10, 15), "a batch at 1,000 events/s, step by step", 3),
    "idle": Measure(measure_idle, (180, 120), (20, 20), "what `run` takes beside a quiet cluster", 5.5),
    "assignments": Measure(
        measure_assignments, (10_000, 3), (1_000, 2), "10,000 groups touched; one of 4,096 queues", 6
    ),
    "cluster": Measure(measure_cluster, (50_000, 2, 2), (1_000, 1, 1), WORKERS, 30),
    "start": Measure(measure_start, (3_000, 3, 60), (200, 1, 20), "first verdict over fresh and neglected tables", 12),
    "history": Measure(
        measure_history, (1_000_000, 10, 3_000), (100_000, 10, 300), "questions to a million rows of history", 3
    ),
    "board": Measure(measure_board, (5,), (1,), "pages of the board over a large installation", 4),
    "collector": Measure(
        measure_collector, (1_000, 5_000, 120), (50, 200, 15), "1,000 groups and 5,000 clients polled in rounds", 8
    ),
    "sizing": Measure(measure_sizing, (100, 90, 240), (10, 20, 40), "what 100 groups take in Kafka, tables, CPU", 12),
    "rivals": Measure(measure_rivals, (DRAINED, DRAINED // 4, 60, 60), (100_000, 50_000, 10, 15), RIVALS, 11),
}


def main() -> None:
    options = _parse()
    machine = read_machine()
    table = Table("measure", "figure", "spread or tail", "beside")
    results: dict[str, Any] = {}
    failed = False
    try:
        for name in options.only or MEASURES:
            measure = MEASURES[name]
            say(f"{name}: {measure.what}, about {measure.minutes:g} minutes at full size")
            try:
                figures = run_apart(measure.measure, *(measure.quick if options.quick else measure.sizes))
            except MeasureError as error:
                failed = True
                say(f"{name} failed: {error}")
                continue
            for row in figures.rows:
                table.add_row(*row)
            table.add_section()
            results[name] = figures.values
            write_report(REPORT, machine, **results)
    except KeyboardInterrupt:
        failed = True
        say("ended by Ctrl-C")
    console = Console(width=WIDTH)
    console.print(", ".join(f"{name} {value}" for name, value in machine.items()))
    console.print(table)
    if results:
        say(f"written: {REPORT}")
    sys.exit(failed)


def _parse() -> argparse.Namespace:
    measures = "\n".join(f"  {name:18} {one.minutes:>4g} min  {one.what}" for name, one in MEASURES.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.bench",
        description=f"{(__doc__ or '').split(chr(10) * 2, 1)[1]}\nmeasures:\n{measures}",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", choices=MEASURES, action="append", metavar="MEASURE", help="this one; may be given several times"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: that it works, not how fast it is")
    return parser.parse_args()


if __name__ == "__main__":
    main()
