"""How soon `run` gives its first verdict: over fresh tables, and over neglected ones, whose small files it compacts."""

import shutil
import time
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from conf.settings import Settings
from schemas.tables import ALERTS
from streaming.warehouse.delta_log import read_commit
from streaming.warehouse.tables import open_delta, table_path
from tests.lab.bench.aged_tables import OF_BATCHES, append_commits, count_small
from tests.lab.bench.figures import Figures
from tests.lab.bench.scratch import live_run, scratch, scratch_folder
from tests.support.laboratory import say
from tests.support.row_writer import create_tables
from tests.support.twins_log import publish, twins_log

FRESH, NEGLECTED = "fresh", "neglected"
GROUP = "order-service"
"""The group of the twins."""

PATIENCE_SECONDS = 300.0


def measure_start(files: int, turns: int, later_seconds: float) -> Figures:
    """Start `run` over tables without a row and over tables of `files` small files each, by turns, on equal logs."""
    seconds: dict[str, list[float]] = {FRESH: [], NEGLECTED: []}
    small: dict[str, list[float]] = {"at the first verdict": [], f"{later_seconds:.0f} s later": []}
    log = twins_log()
    with scratch_folder() as neglected:
        create_tables(neglected)
        for table in OF_BATCHES:
            append_commits(neglected, table, files)
            say(f"start: {files:,} small files in {table.name}")
        for turn in range(turns):
            for name in (FRESH, NEGLECTED):
                with scratch(0) as place:  # with a new Kafka: `run` publishes clock events and canaries
                    settings = place.settings_for(name)
                    if name == NEGLECTED:
                        shutil.copytree(neglected, settings.paths.warehouse)
                    publish(settings, log)
                    took, *counts = _start(settings, later_seconds)
                seconds[name].append(took)
                say(f"start {turn + 1}/{turns}, {name} tables: {took:.1f} s; small files {counts[0]}, then {counts[1]}")
                if name == NEGLECTED:
                    for count, counted in zip(counts, small.values(), strict=True):
                        counted.append(count)
    return figures_of(files, seconds, small)


def figures_of(files: int, seconds: dict[str, list[float]], small: dict[str, list[float]]) -> Figures:
    """Of each start, and of the small files of all neglected tables."""
    figures = Figures()
    figures.add_spread("start, fresh tables", seconds[FRESH], "{:.1f} s", "to the first alert of the log's twins")
    figures.add_spread("start, neglected tables", seconds[NEGLECTED], "{:.1f} s", f"{files:,} small files in each")
    ratios = [late / early for early, late in zip(seconds[FRESH], seconds[NEGLECTED], strict=True)]
    figures.add_spread("start, neglected / fresh", ratios, "{:.2f}", "pairs of one turn")
    beside = f"of {len(OF_BATCHES) * files:,} in all neglected tables"
    for when, counts in small.items():
        figures.add_spread(f"start, small files {when}", counts, "{:,.0f}", beside)
    return figures


def _start(settings: Settings, later_seconds: float) -> tuple[float, int, int]:
    """Return the seconds from the start of `run` to the commit of its first verdict, and small files then and later."""
    folder = Path(table_path(settings.paths.warehouse, ALERTS.name))
    version = open_delta(str(folder)).version() + 1 if folder.exists() else 0
    began = time.time()
    with live_run(settings) as run:
        run.wait_until(lambda: verdict_at(folder, version) is not None, PATIENCE_SECONDS)
        at, small = verdict_at(folder, version) or 0.0, _count_small(settings)
        run.sleep(later_seconds)
        return at - began, small, _count_small(settings)


def verdict_at(alerts: Path, version: int) -> float | None:
    """Return the time of the first commit from `version` on with an alert of the twins, epoch seconds; None without."""
    while (commit := read_commit(alerts, version)) is not None:
        version += 1
        rows = [pq.read_table(alerts / file, columns=["consumer_group"]) for file in commit.appended]
        if any(pc.any(pc.equal(table["consumer_group"], GROUP)).as_py() for table in rows):
            return commit.at_ms / 1000
    return None


def _count_small(settings: Settings) -> int:
    return sum(count_small(open_delta(table_path(settings.paths.warehouse, table.name))) for table in OF_BATCHES)
