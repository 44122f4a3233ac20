"""A rival's rows into Delta: gathered, and appended by deltalake in one commit."""

import pyarrow as pa
from deltalake import write_deltalake

from tests.bench.rivals.broker_items import Row
from tests.bench.rivals.work import Work, note_flips

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


class DeltaRows:
    """Rows that wait for a commit. Nothing is committed of no rows."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._rows: list[Row] = []

    def add(self, rows: list[Row]) -> None:
        self._rows += rows

    def commit(self) -> None:
        if not self._rows:
            return
        rows, self._rows = self._rows, []
        times = ("start_timestamp", "changed_at")
        columns = [
            pa.array([row[field.name] * 1000 if field.name in times else row[field.name] for row in rows], field.type)
            for field in SCHEMA
        ]
        self._work.table.parent.mkdir(parents=True, exist_ok=True)
        write_deltalake(str(self._work.table), pa.table(columns, schema=SCHEMA), mode="append")
        note_flips(self._work, rows)
