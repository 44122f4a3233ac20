"""A table's small files, known from its log, and their compaction beside other writers.

If two compactions by delta-rs 1.6.6 take the same files, both succeed, and the rows are there twice (delta-rs, pull
request 3982). For each it also lists the log five times, and replays the commits since the last checkpoint. Here
a commit fails if a file is gone, and the cost is that of the new commits and of the compacted files. Source: Delta's
PROTOCOL.md, "Add File and Remove File".
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any
from urllib.parse import quote

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from streaming.text.times import wall_ms
from streaming.warehouse.appender import (
    add_file,
    commit_info,
    contract_of,
    create_commit,
    is_commit,
    merged_statistics,
    statistics_of,
)
from streaming.warehouse.delta_log import read_actions
from streaming.warehouse.table_store import read_file, store_of
from streaming.warehouse.tables import open_delta

ROWS_A_GROUP = 1 << 18
"""Rows that are held as they are written: half of them make files a fifth larger."""


class SmallFiles:
    """The files below `limit` bytes of one table.

    `sizes`: bytes by path, as of `version`; none of a table with deletion vectors, which other writers make.
    """

    def __init__(self, path: str, limit: int, handle: DeltaTable | None = None) -> None:
        """`handle` is the table, if it is open.

        Raises TableNotFoundError, or AppendRefusedError if the table asks more of its writers than rows.
        """
        self._path, self._limit = path, limit
        self._look(open_delta(path) if handle is None else handle)

    def _look(self, handle: DeltaTable) -> None:
        """Take the table as it is."""
        contract = contract_of(handle)
        fields = (pa.field(name, type_, name not in contract.required) for name, type_ in contract.types.items())
        self._schema = pa.schema(list(fields))
        self._has_vectors = "deletionVectors" in (handle.protocol().writer_features or ())
        self.version = int(handle.version())
        self.sizes: dict[str, int] = {}
        adds = handle.get_add_actions(flatten=True)
        self._add(zip(adds["path"].to_pylist(), adds["size_bytes"].to_pylist(), strict=True))

    def follow(self) -> None:
        """Take in the commits that were made since."""
        with suppress(FileNotFoundError):
            while True:
                self._take_in(read_actions(self._path, self.version + 1))

    def bins(self, size: int) -> list[list[str]]:
        """Return the paths of files below `size` bytes, in groups of two or more that reach it; the last may not."""
        bins: list[list[str]] = []
        room = 0
        for path, bytes_ in self.sizes.items():
            if bytes_ < size:
                if room <= 0:
                    bins.append([])
                    room = size
                bins[-1].append(path)
                room -= bytes_
        return [paths for paths in bins if len(paths) > 1]

    def compact(self, paths: Sequence[str]) -> bool:
        """Make one of these files, which is held in memory, compressed.

        Return False, with nothing changed, if another writer removed one of them, or altered the table.
        """
        if not self.sizes.keys() >= set(paths):
            return False
        sink, statistics = BytesIO(), list[dict[str, Any]]()
        with pq.ParquetWriter(sink, self._schema, compression="zstd", compression_level=3) as writer:
            for rows in self._row_groups(paths):
                writer.write_table(rows)
                statistics.append(statistics_of(rows))
        add = add_file(self._path, "zstd", sink.getvalue(), merged_statistics(statistics), is_new=False)
        old = {"dataChange": False, "deletionTimestamp": wall_ms(), "extendedFileMetadata": True, "partitionValues": {}}
        actions: list[dict[str, Any]] = [
            commit_info("OPTIMIZE", {"predicate": "[]"}, is_blind=False),
            *({"remove": {"path": path, "size": self.sizes[path], **old}} for path in paths),
            {"add": add},
        ]
        if self._commit(actions, paths):
            return True
        obstore.delete(store_of(self._path), add["path"])
        return False

    def _row_groups(self, paths: Sequence[str]) -> Iterator[pa.Table]:
        held, count = list[pa.Table](), 0
        for path in paths:
            content = pa.BufferReader(read_file(self._path, path)[0])
            file = pq.ParquetFile(content, coerce_int96_timestamp_unit="us")  # Spark writes times as INT96
            for batch in file.iter_batches(ROWS_A_GROUP, use_threads=False):  # threads cost more than they save
                held.append(self._as_table(pa.table(batch)))
                count += batch.num_rows
                if count >= ROWS_A_GROUP:
                    yield pa.concat_tables(held)
                    held, count = [], 0
        if held:
            yield pa.concat_tables(held)

    def _as_table(self, rows: pa.Table) -> pa.Table:
        """In the table's columns and types: a file of an older release may lack some."""
        if rows.schema.equals(self._schema):
            return rows
        columns = (
            rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
            for field in self._schema
        )
        return pa.table(list(columns), schema=self._schema)

    def _commit(self, actions: list[dict[str, Any]], paths: Sequence[str]) -> bool:
        """Commit as the next free version; see `compact`."""
        commit_id, schema = actions[0]["commitInfo"]["txnId"], self._schema
        while True:
            try:
                create_commit(self._path, self.version + 1, actions)
                break
            except FileExistsError:
                made = read_actions(self._path, self.version + 1)
            if is_commit(made, commit_id):
                break  # ours: its answer was lost, and it was sent again
            self._take_in(made)
            if self._schema is not schema or not self.sizes.keys() >= set(paths):
                return False
        self._take_in(actions)
        return True

    def _take_in(self, actions: list[dict[str, Any]]) -> None:
        if any("metaData" in action or "protocol" in action for action in actions):
            self._look(open_delta(self._path))
            return
        for path in (action["remove"]["path"] for action in actions if "remove" in action):
            self.sizes.pop(path, None)
        self._add((action["add"]["path"], action["add"]["size"]) for action in actions if "add" in action)
        self.version += 1

    def _add(self, files: Iterable[tuple[str, int]]) -> None:
        """A name with other characters than Delta's writers use may be written in two ways: it is left out."""
        if not self._has_vectors:
            self.sizes.update((path, size) for path, size in files if size < self._limit and quote(path) == path)
