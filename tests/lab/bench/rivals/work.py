"""The work of a contender, and the files in its folder: a Delta table, the commit time of each flip, a report.

Imported by the rivals in their own environments: the standard library, pyarrow and deltalake only.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

TOPIC = "rocketmq.send_latencies"

CONSUMER = {"fetch.queue.backoff.ms": "20"}
"""For librdkafka, with which the rivals read: its full queue otherwise pauses for a second, which halves a drain."""

COMMITTED = "committed"
"""Touched at each commit."""


_TIME = pa.timestamp("us", "UTC")

SCHEMA = pa.schema(
    [
        ("cluster", pa.string()),
        ("broker_name", pa.string()),
        ("client_id", pa.string()),
        ("client_version", pa.string()),
        ("current_latency_ms", pa.int64()),
        ("isolation", pa.bool_()),
        ("start_timestamp", _TIME),
        ("available", pa.bool_()),
        ("changed_at", _TIME),
    ]
)

Row = dict[str, Any]
"""A row of fault_items, without its batch; times are epoch ms."""


@dataclass(frozen=True)
class Work:
    """`events` are all that the topic holds, to be drained, the first `warm_events` apart; 0: live, until SIGTERM.

    `group` is the consumer group, of which Kafka keeps the offsets.
    """

    bootstrap_servers: str
    folder: Path
    events: int
    warm_events: int
    commit_seconds: float
    group: str

    @property
    def is_live(self) -> bool:
        return self.events == 0

    @property
    def table(self) -> Path:
        """Where the Delta rows go."""
        return self.folder / "warehouse" / "fault_items"

    def argument(self) -> str:
        """For the command line of a contender, which `read_work` reads."""
        return json.dumps({**asdict(self), "folder": str(self.folder)})


@dataclass(frozen=True)
class Drained:
    """Epoch seconds from the first `warm_events` to the Delta commit of the last row, and the events between."""

    events: int
    began: float
    ended: float


def read_work() -> Work:
    """Return the work on the command line of this process, a contender of `python -m tests.lab.bench --only rivals`."""
    fields = json.loads(sys.argv[1])
    return Work(**{**fields, "folder": Path(fields["folder"])})


def mark_ready(work: Work) -> None:
    """Report that events are read from now on."""
    (work.folder / "ready").touch()


class Clock:
    """A counter of events, with the time when the warm ones were done."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.events, self._warm, self._began, self._ended = 0, 0, 0.0, 0.0

    def count(self, events: int) -> bool:
        """Return True once all events have been read."""
        self.events += events
        if not self._began and self.events >= self._work.warm_events:
            self._warm, self._began = self.events, time.time()
        if self._work.is_live or self.events < self._work.events:
            return False
        self._ended = time.time()
        return True

    def report(self) -> None:
        """Write the report; call it when the last row is in, before the contender's own clean-up."""
        committed = self._work.folder / COMMITTED
        ended = max(self._ended, committed.stat().st_mtime if committed.exists() else 0.0)
        write_report(self._work, Drained(self.events - self._warm, self._began, ended))


def write_report(work: Work, drained: Drained) -> None:
    (work.folder / "report.json").write_text(json.dumps(asdict(drained)))


def read_report(work: Work) -> Drained:
    """Raises FileNotFoundError where the contender wrote none."""
    return Drained(**json.loads((work.folder / "report.json").read_text()))


def note_flips(work: Work, rows: Sequence[dict[str, Any]]) -> None:
    """Append the event's time and the current time of each row that says a broker is unavailable, a line each."""
    now_ms = time.time_ns() // 1_000_000
    (work.folder / COMMITTED).touch()
    with (work.folder / "flips.txt").open("a") as file:
        file.writelines(f"{row['changed_at']} {now_ms}\n" for row in rows if not row["available"])


def read_flips(work: Work) -> list[tuple[int, int]]:
    """(event's time, time of the commit), ms."""
    path = work.folder / "flips.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(event_ms), int(done_ms)) for event_ms, done_ms in map(str.split, lines)]


class DeltaRows:
    """Rows that wait for a commit. No rows make no commit."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._rows: list[Row] = []

    def add(self, rows: list[Row]) -> None:
        self._rows += rows

    def commit(self) -> None:
        if not self._rows:
            return
        rows, self._rows = self._rows, []
        columns = [
            pa.array([row[field.name] * 1000 if field.type == _TIME else row[field.name] for row in rows], field.type)
            for field in SCHEMA
        ]
        self._work.table.parent.mkdir(parents=True, exist_ok=True)
        write_deltalake(str(self._work.table), pa.table(columns, schema=SCHEMA), mode="append")
        note_flips(self._work, rows)
