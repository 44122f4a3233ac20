"""`python -m tests.lab.bench`: throughput, latency, memory and CPU on an embedded Kafka.

Each measure runs in its own processes, one after the other. Compare ratios within a run; absolute figures are the
machine's. A table goes to stdout, all figures as JSON to a file, progress to stderr.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.lab.bench.apart import MeasureError, run_apart
from tests.lab.bench.assignments import add_assignments, measure_assignments
from tests.lab.bench.collector import add_collector, measure_collector
from tests.lab.bench.drain import add_drain, measure_drain
from tests.lab.bench.history import add_history, measure_history
from tests.lab.bench.idle import add_idle, measure_idle
from tests.lab.bench.latency import add_latency, measure_latency
from tests.lab.bench.rivals.measure import comparison_table, measure_rivals, notes
from tests.lab.bench.scratch import Machine, read_machine, say, write_report

WIDTH = 100
REPORT = Path(".bench/result.json")

EXAMPLES = """
examples:
  python -m tests.lab.bench                                      everything, about 35 minutes
  python -m tests.lab.bench --quick                              a few minutes: does it work?
  python -m tests.lab.bench --only assignments
  python -m tests.lab.bench --only latency --only latency_aged   the second beside the first
"""


@dataclass(frozen=True)
class Measure:
    """`sizes` and `quick` are the arguments of `measure`; `minutes` it takes with `sizes`. `add` appends its rows."""

    measure: Callable[..., Any]
    add: Callable[[Table, Any], None] | None
    sizes: tuple[Any, ...]
    quick: tuple[Any, ...]
    what: str
    minutes: float


DRAINED = 1_000_000

AGED = "the same over tables of 10,000 commits"
RIVALS = "the same work by bytewax, quixstreams and a plain loop"

MEASURES = {
    "drain": Measure(
        measure_drain, add_drain, (DRAINED, DRAINED // 4, 3), (200_000, 50_000, 2), "send latencies a second", 2
    ),
    "latency": Measure(measure_latency, None, (60, 60, 20), (10, 15, 8), "event to Delta row at 1,000 events/s", 3.5),
    "latency_aged": Measure(measure_latency, None, (60, 60, 0, 10_000), (10, 15, 0, 500), AGED, 3.5),
    "idle": Measure(measure_idle, add_idle, (180, 120), (20, 20), "what `run` takes beside a quiet cluster", 5.5),
    "assignments": Measure(
        measure_assignments, add_assignments, (10_000, 3), (1_000, 2), "10,000 groups touched; one of 4,096 queues", 6
    ),
    "history": Measure(
        measure_history, add_history, (1_000_000, 10, 3_000), (100_000, 10, 300), "questions to a million rows", 3
    ),
    "collector": Measure(
        measure_collector,
        add_collector,
        (1_000, 5_000, 120),
        (50, 200, 15),
        "1,000 groups and 5,000 clients read round by round",
        8,
    ),
    "rivals": Measure(measure_rivals, None, (DRAINED, DRAINED // 4, 60, 60), (100_000, 50_000, 10, 15), RIVALS, 11),
}


def main() -> None:
    options = _parse()
    machine = read_machine()
    results: dict[str, Any] = {}
    failed = False
    try:
        for name, measure in MEASURES.items():
            if options.only and name not in options.only:
                continue
            say(f"{name}: {measure.what}, about {measure.minutes:g} minutes at full size")
            sizes = measure.quick if options.quick else measure.sizes
            try:
                results[name] = run_apart(measure.measure, *sizes)
            except MeasureError as error:
                failed = True
                say(f"{name} failed: {error}")
            write_report(REPORT, machine, **{name: asdict(result) for name, result in results.items()})
    except KeyboardInterrupt:
        failed = True
        say("ended by Ctrl-C")
    _print(machine, results)
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


def _print(machine: Machine, results: dict[str, Any]) -> None:
    console = Console(width=WIDTH)
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    console.print(f"{machine}; Python {machine.python}, {versions}")
    table = Table("measure", "figure", "spread or tail", "beside")
    for name, result in results.items():
        if add := MEASURES[name].add:
            add(table, result)
        elif name != "rivals":
            add_latency(table, name, result, results.get("latency"))
    if table.row_count:
        console.print(table)
    if rivals := results.get("rivals"):
        console.print(comparison_table(rivals))
        for note in notes(rivals):
            console.print(note)


if __name__ == "__main__":
    main()
