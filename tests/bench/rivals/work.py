"""What a contender is asked to do, and what it leaves in its folder: a Delta table, when each flip was in it, a report.

Imported by the rivals in environments of their own: the standard library, pyarrow and deltalake only.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TOPIC = "rocketmq.send_latencies"

CONSUMER = {"fetch.queue.backoff.ms": "20"}
"""For librdkafka, by which the rivals read: its queue when full otherwise rests for a second, which halves a drain."""

COMMITTED = "committed"
"""Touched at each commit."""


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

    def arguments(self) -> list[str]:
        """For a command line that `read_work` reads."""
        return [f"--{name.replace('_', '-')}={value}" for name, value in asdict(self).items()]


@dataclass(frozen=True)
class Drained:
    """Epoch seconds from the first `warm_events` to the Delta commit of the last row, and the events between."""

    events: int
    began: float
    ended: float


def read_work(prog: str) -> Work:
    parser = argparse.ArgumentParser(prog=prog, description="A contender of `python -m tests.bench --only rivals`.")
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--events", type=int, default=0)
    parser.add_argument("--warm-events", type=int, default=0)
    parser.add_argument("--commit-seconds", type=float, default=1.0)
    parser.add_argument("--group", default="bench")
    return Work(**vars(parser.parse_args()))


def mark_ready(work: Work) -> None:
    """From now on events are read as they come."""
    (work.folder / "ready").touch()


class Clock:
    """Counts events, and knows when the warm ones were done."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.events, self._warm, self._began, self._ended = 0, 0, 0.0, 0.0

    def count(self, events: int) -> bool:
        """True once all events that are due have come."""
        self.events += events
        if not self._began and self.events >= self._work.warm_events:
            self._warm, self._began = self.events, time.time()
        if self._work.is_live or self.events < self._work.events:
            return False
        self._ended = time.time()
        return True

    def report(self) -> None:
        """To be called when the last row is in; what a contender does to end is not part of it."""
        committed = self._work.folder / COMMITTED
        ended = max(self._ended, committed.stat().st_mtime if committed.exists() else 0.0)
        write_report(self._work, Drained(self.events - self._warm, self._began, ended))


def write_report(work: Work, drained: Drained) -> None:
    (work.folder / "report.json").write_text(json.dumps(asdict(drained)))


def read_report(work: Work) -> Drained:
    """Raises FileNotFoundError where the contender wrote none."""
    return Drained(**json.loads((work.folder / "report.json").read_text()))


def note_flips(work: Work, rows: Sequence[dict[str, Any]]) -> None:
    """These rows are in Delta now: the event's time and ours of each that tells a broker unavailable, a line each."""
    now_ms = time.time_ns() // 1_000_000
    (work.folder / COMMITTED).touch()
    with (work.folder / "flips.txt").open("a") as file:
        file.writelines(f"{row['changed_at']} {now_ms}\n" for row in rows if not row["available"])


def read_flips(work: Work) -> list[tuple[int, int]]:
    """(event's time, time of the commit), ms."""
    path = work.folder / "flips.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(event_ms), int(done_ms)) for event_ms, done_ms in map(str.split, lines)]
