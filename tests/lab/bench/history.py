"""Seconds that a question to a long history takes, beside those to count its rows.

A question is asked of an open History, as the board does, and by a command, start of Python included. The same of a
table in thousands of small files, before compaction and after it.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from schemas.tables import ALERTS, ASSIGNMENTS
from streaming.history.incident_story import read_story
from streaming.history.owner_command import Queue, read_owners
from streaming.history.query_options import QueryOptions
from streaming.store.freshness import Freshness
from streaming.store.store import History
from streaming.warehouse.tables import table_path
from tests.lab.bench.aged_tables import ROWS, append_commits
from tests.lab.bench.figures import Figures
from tests.lab.bench.history_rows import END_MS, write_history
from tests.lab.bench.scratch import scratch_folder
from tests.support.laboratory import say

ROUNDS = 5
SINCE_MS = END_MS - 3_600_000
ONE_GROUP = "SELECT * FROM assignments_now WHERE consumer_group = 'group-0007'"

COMMANDS = {
    "--help": "--help",
    "alerts --current --state FIRING": "alerts --current --state FIRING --format csv",
    "assignments --current --group G": "assignments --current --group group-0007 --format csv",
    "assignments --since 1h before the end": "assignments --since {since} --format csv",
    "owner T B:Q --group G --at T": "owner topic-007 broker-a:0 --group group-0007 --at {since}",
    "explain": "explain --format json",
}


def measure_history(rows: int, files: int, small_files: int) -> Figures:
    """Make the tables, and ask."""
    figures = Figures()
    with scratch_folder() as folder:
        few, many = folder / "few", folder / "many"
        say(f"history: writing {rows:,} rows")
        counts = write_history(few, rows, files)
        say("history: asking")
        _ask_open(figures, few)
        _ask_by_commands(figures, few)
        say(f"history: writing {small_files:,} small files")
        append_commits(many, ASSIGNMENTS, small_files)
        _ask_of_small_files(figures, many, "small files")
        DeltaTable(table_path(many, ASSIGNMENTS.name)).optimize.compact()
        _ask_of_small_files(figures, many, "compacted")
    figures.add("history, rows", f"{sum(counts.values()):,}", "", f"{small_files * ROWS:,} in small files")
    return figures


def _ask_open(figures: Figures, warehouse: Path) -> None:
    history = History(warehouse)
    firing = history.rows("SELECT incident_id FROM firing LIMIT 1")
    (incident,) = firing or history.rows("SELECT incident_id FROM alerts LIMIT 1")
    queue = Queue("topic-007", "broker-a", 0, QueryOptions(warehouse, names={"group": "group-0007"}))
    asked: dict[str, Callable[[], object]] = {
        "open the tables": lambda: History(warehouse),
        "every alert that fires now": lambda: history.query("SELECT * FROM firing"),
        "verdicts of all queues now": lambda: history.query("SELECT verdict, count(*) FROM assignments_now GROUP BY 1"),
        "all queues now, every column": lambda: history.query("SELECT * FROM assignments_now"),
        "one group's queues now": lambda: history.query(ONE_GROUP),
        "the last hour's changes": lambda: _ask_since(history),
        "owner of a queue then": lambda: read_owners(history, queue, Freshness(SINCE_MS, None, 0)),
        "an incident's story": lambda: read_story(history, incident["incident_id"]),
    }
    _add(figures, warehouse, asked, (ASSIGNMENTS.name, ALERTS.name))


def _ask_by_commands(figures: Figures, warehouse: Path) -> None:
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(SINCE_MS / 1000))
    asked: dict[str, Callable[[], object]] = {}
    for name, text in COMMANDS.items():
        where = [] if "--help" in text else ["--warehouse", str(warehouse)]
        command = [sys.executable, "-m", "streaming.cli", *text.format(since=since).split(), *where]
        asked[f"$ balancewatch {name}"] = partial(subprocess.run, command, check=True, capture_output=True)
    _add(figures, warehouse, asked)


def _ask_of_small_files(figures: Figures, warehouse: Path, what: str) -> None:
    history = History(warehouse, [ASSIGNMENTS])
    asked: dict[str, Callable[[], object]] = {
        f"{what}: open": lambda: History(warehouse, [ASSIGNMENTS]),
        f"{what}: the last hour": lambda: _ask_since(history),
        f"{what}: one group now": lambda: history.query(ONE_GROUP),
    }
    _add(figures, warehouse, asked, (ASSIGNMENTS.name,))


def _ask_since(history: History) -> pa.Table:
    return history.query(f"SELECT * FROM {history.between(ASSIGNMENTS, SINCE_MS)}")


def _add(
    figures: Figures, warehouse: Path, asked: Mapping[str, Callable[[], object]], counted: tuple[str, ...] = ()
) -> None:
    """Ask each question; beside it the time to count the rows of the `counted` tables by their files' footers."""
    files = {log.parent: DeltaTable(str(log.parent)).file_uris() for log in warehouse.glob("*/_delta_log")}
    beside = f"{sum(map(len, files.values())):,} files"
    if counted:
        engine = duckdb.connect()
        paths = [path for table, of_table in files.items() if table.name in counted for path in of_table]
        floor = sorted(_seconds(lambda: engine.read_parquet(paths).count("*").fetchall()))[ROUNDS // 2]
        beside += f"; counting the rows {floor:.3f} s"
    for name, ask in asked.items():
        figures.add_spread(f"history, {name}", _seconds(ask), "{:.3f} s", beside)


def _seconds(ask: Callable[[], object]) -> list[float]:
    """Of several rounds, without the first one, which warms the caches."""
    seconds = []
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        ask()
        seconds.append(time.perf_counter() - began)
    return seconds[1:]
