"""What a run has written, as multisets of rows, how two runs differ, and a line of the harness's table."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable

TABLES = ("alerts", "assignments", "memberships", "fault_items", "broker_health", "quarantine")

History = dict[str, Counter[str]]
"""Table to its rows, as JSON of all columns but batch_id, and how often each is there."""


def read_history(warehouse: Path) -> History:
    return {table: _rows(warehouse / table) for table in TABLES}


def _rows(path: Path) -> Counter[str]:
    rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return Counter(
        json.dumps({name: value for name, value in row.items() if name != "batch_id"}, sort_keys=True, default=str)
        for row in rows
    )


def newest_health(history: History) -> History:
    """The same with the newest `broker_health` row of each broker alone.

    The rows between depend on the batches: two runs that cut a live log into different batches write different ones,
    killed or not, and end with the same.
    """
    newest: dict[tuple[str, str], str] = {}
    for row in history["broker_health"]:
        fields = json.loads(row)
        broker = fields["cluster"], fields["broker_name"]
        if broker not in newest or json.loads(newest[broker])["changed_at"] < fields["changed_at"]:
            newest[broker] = row
    return {**history, "broker_health": Counter(newest.values())}


@dataclass(frozen=True)
class Comparison:
    """`lost` rows of the reference are not there, or fewer times; `extra` ones are there and should not be."""

    rows: int
    lost: Counter[str]
    extra: Counter[str]

    @property
    def is_equal(self) -> bool:
        return not self.lost and not self.extra

    def describe(self, at_most: int = 3) -> str:
        """A few of the rows that differ, for people."""
        lines = [f"lost {row}" for row in list(self.lost)[:at_most]]
        return "\n".join([*lines, *(f"extra {row}" for row in list(self.extra)[:at_most])])


def compare(reference: History, history: History) -> Comparison:
    before, after = (
        Counter({f"{table} {row}": count for table, rows in one.items() for row, count in rows.items()})
        for one in (reference, history)
    )
    return Comparison(after.total(), before - after, after - before)


COLUMNS = ("scenario", "kills", "restarts", "rows", "equal", "twice", "lost", "seconds", "remark")


@dataclass(frozen=True)
class Outcome:
    """`kills` were done, `restarts` are the starts after the first. `remark` says what else is wrong.

    `repeated` are deliveries made twice that were in flight at a kill, as they may.
    """

    name: str
    kills: int
    restarts: int
    comparison: Comparison
    remark: str = ""
    repeated: int = 0

    @property
    def is_good(self) -> bool:
        return self.comparison.is_equal and not self.remark

    def cells(self, seconds: float) -> list[str]:
        compared = self.comparison
        equal, twice = "yes" if compared.is_equal else "NO", compared.extra.total() + self.repeated
        figures = (self.kills, self.restarts, f"{compared.rows:,}", equal, twice, compared.lost.total())
        return [self.name, *map(str, figures), f"{seconds:.0f}", self.remark]
