"""Seconds that a question to a long history takes, beside those to count its rows.

A question is asked of an open History, as the board does, and by a command of its own, start of Python included. The
same of a table in thousands of small files, before compaction and after it.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from rich.table import Table

from schemas.tables import ALERTS, ASSIGNMENTS
from streaming.history.incident_story import read_story
from streaming.history.owner_command import Queue, read_owners
from streaming.history.query_options import QueryOptions
from streaming.store.freshness import Freshness
from streaming.store.store import History
from streaming.warehouse.tables import table_path
from tests.lab.bench.figures import Spread, spread_of
from tests.lab.bench.history_rows import end_ms, write_history, write_small_files
from tests.lab.bench.scratch import say, scratch_folder

ROUNDS = 5
HOUR_MS = 3_600_000
ONE_GROUP = "SELECT * FROM assignments_now WHERE consumer_group = 'group-0007'"

COMMANDS = {
    "--help": "--help",
    "alerts --current --state FIRING": "alerts --current --state FIRING --format csv",
    "assignments --current --group G": "assignments --current --group group-0007 --format csv",
    "assignments --since 1h before the end": "assignments --since {since} --format csv",
    "owner T B:Q --group G --at T": "owner topic-007 broker-a:0 --group group-0007 --at {since}",
    "explain": "explain --format json",
}


@dataclass(frozen=True)
class Question:
    """One question and its seconds, `cpu` those in which it computed.

    `floor` is to count the rows of the same files; 0 where there is nothing to count.
    """

    name: str
    files: int
    seconds: Spread
    cpu: float
    floor: float


@dataclass(frozen=True)
class HistoryResult:
    """`rows` of all tables; `small_rows` of the table of small files."""

    rows: int
    small_rows: int
    questions: tuple[Question, ...]


def measure_history(rows: int, files: int, small_files: int) -> HistoryResult:
    """Make the tables, and ask."""
    with scratch_folder() as folder:
        few, many = folder / "few", folder / "many"
        say(f"history: writing {rows:,} rows")
        counts = write_history(few, rows, files)
        say("history: asking")
        questions = [*_asked_open(few), *_asked_by_commands(few)]
        say(f"history: writing {small_files:,} small files")
        write_small_files(many, ASSIGNMENTS, small_files * 100, small_files)
        questions += _asked_of_small_files(many, "small files")
        DeltaTable(table_path(many, ASSIGNMENTS.name)).optimize.compact()
        questions += _asked_of_small_files(many, "compacted")
        return HistoryResult(sum(counts.values()), small_files * 100, tuple(questions))


def _asked_open(warehouse: Path) -> list[Question]:
    history = History(warehouse)
    firing = history.rows("SELECT incident_id FROM firing LIMIT 1")
    (incident,) = firing or history.rows("SELECT incident_id FROM alerts LIMIT 1")
    queue = Queue("topic-007", "broker-a", 0, QueryOptions(warehouse, names={"group": "group-0007"}))
    since_ms = end_ms() - HOUR_MS
    asked: dict[str, Callable[[], object]] = {
        "open the tables": lambda: History(warehouse),
        "every alert that fires now": lambda: history.query("SELECT * FROM firing"),
        "verdicts of all queues now": lambda: history.query("SELECT verdict, count(*) FROM assignments_now GROUP BY 1"),
        "all queues now, every column": lambda: history.query("SELECT * FROM assignments_now"),
        "one group's queues now": lambda: history.query(ONE_GROUP),
        "the last hour's changes": lambda: _ask_since(history, since_ms),
        "owner of a queue then": lambda: read_owners(history, queue, Freshness(since_ms, None, 0)),
        "an incident's story": lambda: read_story(history, incident["incident_id"]),
    }
    return _questions(warehouse, asked, _floor(warehouse, ASSIGNMENTS.name) + _floor(warehouse, ALERTS.name))


def _asked_by_commands(warehouse: Path) -> list[Question]:
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((end_ms() - HOUR_MS) / 1000))
    asked: dict[str, Callable[[], object]] = {}
    for name, text in COMMANDS.items():
        where = [] if "--help" in text else ["--warehouse", str(warehouse)]
        command = [sys.executable, "-m", "streaming.cli", *text.format(since=since).split(), *where]
        asked[f"$ balancewatch {name}"] = partial(subprocess.run, command, check=True, capture_output=True)
    return _questions(warehouse, asked, 0.0)


def _asked_of_small_files(warehouse: Path, what: str) -> list[Question]:
    history, since_ms = History(warehouse, [ASSIGNMENTS]), end_ms() - HOUR_MS
    asked: dict[str, Callable[[], object]] = {
        f"{what}: open": lambda: History(warehouse, [ASSIGNMENTS]),
        f"{what}: the last hour": lambda: _ask_since(history, since_ms),
        f"{what}: one group now": lambda: history.query(ONE_GROUP),
    }
    return _questions(warehouse, asked, _floor(warehouse, ASSIGNMENTS.name), 3)


def _ask_since(history: History, since_ms: int) -> pa.Table:
    return history.query(f"SELECT * FROM {history.between(ASSIGNMENTS, since_ms)}")  # our own text


def _questions(
    warehouse: Path, asked: Mapping[str, Callable[[], object]], floor: float, rounds: int = ROUNDS
) -> list[Question]:
    files = sum(len(DeltaTable(str(log.parent)).file_uris()) for log in warehouse.glob("*/_delta_log"))
    return [Question(name, files, *_timed(ask, rounds), floor) for name, ask in asked.items()]


def _timed(ask: Callable[[], object], rounds: int) -> tuple[Spread, float]:
    """Seconds, and the median of the CPU's, children included; without the first round, which warms the caches."""
    seconds, cpu = list[float](), list[float]()
    for _ in range(rounds + 1):
        began, used = time.perf_counter(), sum(os.times()[:4])
        ask()
        seconds.append(time.perf_counter() - began)
        cpu.append(sum(os.times()[:4]) - used)
    return spread_of(seconds[1:]), spread_of(cpu[1:]).median


def _floor(warehouse: Path, name: str) -> float:
    """Seconds to count the rows of the table's files by their footers."""
    paths, engine = DeltaTable(table_path(warehouse, name)).file_uris(), duckdb.connect()
    return _timed(lambda: engine.read_parquet(paths).count("*").fetchall(), 3)[0].median


def add_history(table: Table, result: HistoryResult) -> None:
    """Rows of the bench's table: figure, spread, and the floor beside it."""
    for one in result.questions:
        beside = f"{one.files:,} files" + (f"; counting their rows {one.floor:.3f} s" if one.floor else "")
        spread = f"{one.seconds.low:.3f} to {one.seconds.high:.3f} s, CPU {one.cpu:.2f} s"
        table.add_row(f"history, {one.name}", f"{one.seconds.median:.3f} s", spread, beside)
    table.add_row("history, rows", f"{result.rows:,}", "", f"{result.small_rows:,} in small files", end_section=True)
