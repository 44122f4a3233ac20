"""Tables with thousands of commits in their past, made as `run` makes them: a commit a batch, and its keeper."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from deltalake import DeltaTable, Transaction

from conf.settings import Settings
from schemas.tables import ALERT_DELIVERIES, ALERTS, ASSIGNMENTS, BROKER_HEALTH, FAULT_ITEMS, MEMBERSHIPS, Table
from streaming.maintenance.files import make_checkpoint, take_stock
from streaming.maintenance.table_keeper import CHECKPOINT_COMMITS, TIERS, TableKeeper
from streaming.warehouse.appender import Appender
from streaming.warehouse.tables import open_delta, open_table, table_path
from tests.lab.bench.history_rows import rows_of
from tests.support.laboratory import say
from tests.support.row_writer import create_tables

OF_BATCHES = (ALERTS, ASSIGNMENTS, MEMBERSHIPS, FAULT_ITEMS, BROKER_HEALTH, ALERT_DELIVERIES)
"""Tables that grow with each batch, and the relay's log."""

ROWS = 32
"""Of an append; a multiple of the rows of an incident, so that none is open at the end."""

KEEP_COMMITS = 64
"""Commits between two rounds of the keeper: with each, the small files are one."""


def age_tables(warehouse: Path, commits: int, tables: Sequence[Table] = OF_BATCHES) -> None:
    """Make all tables, these with `commits` appends in their past."""
    began = time.monotonic()
    create_tables(warehouse)
    keeper = TableKeeper(Settings.load(paths={"warehouse": warehouse, "checkpoints": warehouse / "none"}))
    for table in tables:
        append_commits(warehouse, table, commits, keeper)
    say(f"{len(tables)} tables of {commits:,} commits after {time.monotonic() - began:.0f} s")


def append_commits(warehouse: Path, table: Table, commits: int, keeper: TableKeeper | None = None) -> None:
    """Append as many small files. Without a `keeper` they stay, and only the log has its checkpoints."""
    path = table_path(warehouse, table.name)
    appender = Appender(path, open_table(warehouse, table), is_synced=False)
    for number in range(commits):
        turn = number % KEEP_COMMITS
        if turn == 0:
            if keeper:
                keeper.keep()
            numbers = np.arange(number * ROWS, (number + KEEP_COMMITS) * ROWS)
            rows = rows_of(table, numbers, commits * ROWS, np.random.default_rng(number))
        appender.append(rows.slice(turn * ROWS, ROWS), Transaction("balancewatch-aged", number))
        if keeper is None and number % CHECKPOINT_COMMITS == CHECKPOINT_COMMITS // 2:
            make_checkpoint(open_delta(path), path)


def count_small(handle: DeltaTable) -> int:
    """Return the number of the table's files that `run` compacts first."""
    return sum(size < TIERS[0][0] for size in take_stock(handle)[1])
