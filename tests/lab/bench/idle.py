"""What `run` takes while a cluster is quiet: cores and memory of each of its processes, minutes after its start."""

from dataclasses import dataclass

from deltalake import DeltaTable
from rich.table import Table

from streaming.kafka_io.topics import create_topics
from streaming.warehouse.tables import table_path
from tests.lab.bench.events import CLUSTER
from tests.lab.bench.live_run import live_run
from tests.lab.bench.pacer import pace_quiet, publishing, quiet_events_per_second
from tests.lab.bench.process_tree import (
    Memory,
    add_memory,
    cores_by_name,
    cpu_of,
    memory_of,
    parts_of,
    read_tree,
    resident_by_name,
)
from tests.lab.bench.scratch import say, scratch

PARTS = 4
"""Of the measured span, each reported as it ends."""


@dataclass(frozen=True)
class IdleResult:
    """`cores` of all processes but Kafka, after `settle_seconds`; `parts` of each quarter of the span.

    `memory` at its end. `alerts` that fired about the quiet cluster: none is due.
    """

    events_per_second: float
    settle_seconds: float
    seconds: float
    cores: float
    parts: list[float]
    cores_by_process: dict[str, float]
    memory: Memory
    alerts: int


def measure_idle(settle_seconds: float, seconds: float) -> IdleResult:
    """`run` with its defaults, in its own process, beside a quiet cluster."""
    with scratch(0) as place:
        settings = place.settings_for("idle")
        create_topics(settings.kafka)
        with live_run(settings) as run, publishing(pace_quiet, settings.kafka, settle_seconds + seconds + 300):
            run.wait_until_written(settings.paths.checkpoints)
            say(f"idle: letting it settle for {settle_seconds:.0f} s, then measuring for {seconds:.0f} s")
            run.sleep(settle_seconds)
            first = before = read_tree(run.pid)
            parts = []
            for number in range(PARTS):
                run.sleep(seconds / PARTS)
                after = read_tree(run.pid)
                parts.append((cpu_of(after) - cpu_of(before)) / (seconds / PARTS))
                say(f"idle {number + 1}/{PARTS}: {parts[-1]:.2f} cores")
                before = after
            by_name = cores_by_name(first, before, seconds)
            alerts = DeltaTable(table_path(settings.paths.warehouse, "alerts"))
            rows = alerts.to_pyarrow_table(columns=["cluster", "state"]).to_pylist()
            return IdleResult(
                quiet_events_per_second(),
                settle_seconds,
                seconds,
                sum(by_name.values()),
                parts,
                by_name,
                memory_of(resident_by_name(before)),
                sum(row["cluster"] == CLUSTER and row["state"] == "FIRING" for row in rows),
            )


def add_idle(table: Table, result: IdleResult) -> None:
    """Rows of the bench's table."""
    beside = f"{result.events_per_second:.0f} events/s, from {result.settle_seconds:.0f} s on"
    alerts = f"; {result.alerts} alerts fired, none is due" if result.alerts else ""
    spread = f"{min(result.parts):.2f} to {max(result.parts):.2f}"
    table.add_row("idle, CPU", f"{result.cores:.2f} cores", spread, beside + alerts)
    table.add_row("idle, CPU by process", "", "", parts_of(result.cores_by_process, 2))
    add_memory(table, "idle", result.memory, "at the end")
