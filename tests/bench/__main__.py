"""`python -m tests.bench`: throughput, latency and memory on an embedded Kafka of its own.

Each measure runs in a process of its own, one after the other. Compare ratios within a run; absolute figures are
the machine's.
"""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.apart import run_apart
from tests.bench.assignments import AssignmentsResult, Touched, measure_assignments
from tests.bench.drain import DrainResult, measure_drain
from tests.bench.figures import Percentiles, Spread
from tests.bench.history import add_history, measure_history
from tests.bench.latency import LatencyResult, measure_latency
from tests.bench.machine import Machine, read_machine
from tests.bench.memory import Memory
from tests.bench.scratch import say

MEASURES = ("drain", "latency", "assignments", "history")


def main() -> None:
    options = _parse()
    machine = read_machine()
    results: dict[str, Any] = {}
    for name in _chosen(options):
        say(f"{name}: starting Kafka and Spark")
        results[name] = run_apart(*_call(name, options))
    table = _table(results)
    console = Console()
    console.print(_describe(machine))
    console.print(table)
    report = {"machine": asdict(machine), "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    report |= {name: asdict(result) for name, result in results.items()}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    say(f"written: {options.json}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__.split("\n\n", 1)[1])
    parser.add_argument("--events", type=int, default=1_000_000, help="send latencies to drain (default: %(default)s)")
    parser.add_argument("--only", choices=MEASURES, help="one measure instead of all")
    parser.add_argument("--quick", action="store_true", help="a minute or two: few events, short spans, no assignments")
    parser.add_argument("--json", type=Path, default=Path(".bench/result.json"), help="default: %(default)s")
    return parser.parse_args()


def _chosen(options: argparse.Namespace) -> tuple[str, ...]:
    if options.only:
        return (options.only,)
    return MEASURES[:2] if options.quick else MEASURES


def _call(name: str, options: argparse.Namespace) -> tuple[Any, ...]:
    """The measure and its sizes."""
    quick = options.quick
    if name == "drain":
        events = min(options.events, 200_000) if quick else options.events
        return measure_drain, events, max(1, events // 4), 2 if quick else 3
    if name == "latency":
        return (measure_latency, 10, 15, 8) if quick else (measure_latency, 30, 60, 20)
    if name == "history":
        return (measure_history, 100_000, 10, 300) if quick else (measure_history, 1_000_000, 10, 3_000)
    return (measure_assignments, 1_000, 2) if quick else (measure_assignments, 10_000, 3)


def _describe(machine: Machine) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    return (
        f"{machine.cores} cores ({machine.cpu}), {machine.memory_gib} GiB, load {machine.load} before; "
        f"Python {machine.python}, {versions}"
    )


def _table(results: dict[str, Any]) -> Table:
    table = Table("measure", "figure", "spread or tail", "beside")
    if drain := results.get("drain"):
        _add_drain(table, drain)
    if latency := results.get("latency"):
        _add_latency(table, latency)
    if touched := results.get("assignments"):
        _add_assignments(table, touched)
    if history := results.get("history"):
        add_history(table, history)
    return table


def _add_drain(table: Table, result: DrainResult) -> None:
    table.add_row("drain, fault_items", _rate(result.drained), _between(result.drained), f"{result.batch:,} a batch")
    table.add_row("drain, reading only", _rate(result.read), _between(result.read))
    ratio = result.ratio
    table.add_row("drain / reading", f"{ratio.median:.2f}", f"{ratio.low:.2f} to {ratio.high:.2f}")
    _add_phases(table, "drain", result.drains[-1].phases_ms)
    _add_memory(table, "drain", result.memory)


def _add_latency(table: Table, result: LatencyResult) -> None:
    rate = f"both queries read {result.events_per_second:,.0f} rows/s"
    table.add_row("latency, FaultItem unavailable", *_ms(result.flips), rate)
    table.add_row("latency, alert", *_ms(result.alerts), "from the clock event that completes it")
    for name, floor in result.floor_ms.items():
        live = result.batches[name].duration_ms
        ratio = f"{live.p50 / floor.p50:.1f} of it under load" if floor.p50 else ""
        table.add_row(f"empty batch, {name}", *_ms(floor), ratio)
        batches = result.batches[name]
        table.add_row(f"batch under load, {name}", *_ms(live), f"{batches.count} batches")
        _add_phases(table, name, batches.phases_ms)
    _add_memory(table, "latency", result.memory)


def _add_assignments(table: Table, result: AssignmentsResult) -> None:
    rows: tuple[tuple[str, Touched], ...] = (
        ("new groups", result.first),
        ("all touched", result.all),
        ("1 % touched", result.few),
    )
    for what, touched in rows:
        seconds = touched.seconds
        table.add_row(
            f"assignments, {what}",
            f"{seconds.median:.2f} s",
            f"{seconds.low:.2f} to {seconds.high:.2f} s",
            f"{touched.groups:,} groups, {touched.rows:,} rows, {touched.rows_per_second.median:,.0f} rows/s",
        )
    _add_memory(table, "assignments", result.memory)


def _add_phases(table: Table, name: str, phases_ms: dict[str, int]) -> None:
    longest = [f"{phase} {ms}" for phase, ms in phases_ms.items() if phase != "triggerExecution" and ms][:4]
    table.add_row(f"phases, {name}", f"{phases_ms.get('triggerExecution', 0):,} ms", "median batch", ", ".join(longest))


def _add_memory(table: Table, name: str, memory: Memory) -> None:
    parts = f"driver {memory.driver_mib}, JVM {memory.jvm_mib}, workers {memory.workers_mib}"
    table.add_row(f"memory, {name}", f"{memory.peak_mib:,} MiB", "", parts, end_section=True)


def _rate(spread: Spread) -> str:
    return f"{spread.median:,.0f} events/s"


def _between(spread: Spread) -> str:
    return f"{spread.low:,.0f} to {spread.high:,.0f}"


def _ms(percentiles: Percentiles) -> tuple[str, str]:
    return f"{percentiles.p50:,.0f} ms", f"p95 {percentiles.p95:,.0f} ms, {percentiles.count} samples"


if __name__ == "__main__":
    main()
