"""A warehouse that modelled clusters have filled, batch by batch as `run` does it, without Spark or Kafka."""

from collections.abc import Sequence
from itertools import count, groupby
from pathlib import Path

from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.support.engine import Stream

START_MS = 1_789_000_000_000
"""2026-09-10 00:26:40 UTC"""

MINUTE = 60_000
SLICE_MS = 2 * MINUTE


def fill_warehouse(
    root: Path, scenarios: Sequence[str] = ("twins", "slow_broker"), minutes: int = 6, start_ms: int = START_MS
) -> None:
    """Play scenarios, one after the other in event time; a commit for each two minutes that changed a table."""
    writer, batches = DeltalakeWriter(root), count()
    for number, scenario in enumerate(scenarios):
        simulation = Simulation(load_scenario(scenario), number + 1, start_ms + number * minutes * MINUTE)
        stream = Stream()
        by_slice = groupby(simulation.events(minutes * MINUTE), key=lambda event: event[1]["event_time_ms"] // SLICE_MS)
        for _, events in by_slice:
            rows = {table: of_table for table, of_table in stream.feed(events).items() if of_table}
            append_rows(writer, rows, "modelled", next(batches))
