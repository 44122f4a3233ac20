"""A table's small files, known from its log, and their compaction while batches are appended.

For each compaction delta-rs lists the whole log five times and replays the commits since the last checkpoint, which
grows with the log. Here the cost is that of the new commits and of the files that are taken together. Source: Delta's
PROTOCOL.md, "Add File and Remove File".
"""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any
from urllib.parse import quote

import obstore
import pyarrow as pa
import pyarrow.parquet as pq

from streaming.text.times import wall_ms
from streaming.warehouse.appender import ENGINE, contract_of, statistics_of
from streaming.warehouse.delta_log import actions_in, log_name
from streaming.warehouse.table_store import create_file, read_file, store_of, write_file
from streaming.warehouse.tables import open_delta


class SmallFiles:
    """The files below `limit` bytes of one table.

    `sizes`: bytes by path, as of `version`. A table with deletion vectors has none, and is left to `maintain`.
    """

    def __init__(self, path: str, limit: int) -> None:
        """Raises TableNotFoundError, or AppendRefusedError if the table asks more of its writers than rows."""
        self._path, self._limit = path, limit
        self.open()

    def open(self) -> None:
        """Read the table anew."""
        handle = open_delta(self._path)
        self._schema = pa.schema(list(contract_of(handle).types.items()))
        self._has_vectors = "deletionVectors" in (handle.protocol().writer_features or ())
        self.version = int(handle.version())
        self.sizes: dict[str, int] = {}
        adds = handle.get_add_actions(flatten=True)
        self._add(zip(adds["path"].to_pylist(), adds["size_bytes"].to_pylist(), strict=True))

    def follow(self) -> None:
        """Take in the commits that were made since."""
        with suppress(FileNotFoundError):
            while True:
                self._take_in(self._read_next())

    def compact(self, size: int) -> bool:
        """Compact files below `size` bytes into one: as many as it takes to reach that size, or all.

        Return False where another writer removed one of them, or altered the table: then nothing is changed.
        """
        paths, total = [], 0
        for path, bytes_ in self.sizes.items():
            if bytes_ < size and total < size:
                paths.append(path)
                total += bytes_
        return self._replace(paths, pa.concat_tables(map(self._read, paths)))

    def _read(self, path: str) -> pa.Table:
        """Return the file's rows in the table's types: Spark writes times as INT96, and an older file lacks columns."""
        file = pq.ParquetFile(BytesIO(read_file(self._path, path)[0]), coerce_int96_timestamp_unit="us")
        rows = file.read()
        if rows.schema.equals(self._schema):
            return rows
        columns = (
            rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
            for field in self._schema
        )
        return pa.table(list(columns), schema=self._schema)

    def _replace(self, paths: list[str], rows: pa.Table) -> bool:
        name, sink, now_ms = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet", BytesIO(), wall_ms()
        pq.write_table(rows, sink, compression="snappy")
        content = sink.getvalue()
        write_file(self._path, name, content)
        unchanged = {"partitionValues": {}, "dataChange": False}
        add = {"path": name, "size": len(content), "modificationTime": now_ms, "stats": statistics_of(rows)}
        gone = {"deletionTimestamp": now_ms, "extendedFileMetadata": True}
        actions: list[dict[str, Any]] = [
            {"commitInfo": _commit_info(now_ms)},
            *({"remove": {"path": path, "size": self.sizes[path], **gone, **unchanged}} for path in paths),
            {"add": {**add, **unchanged}},
        ]
        if self._commit(actions, paths):
            return True
        obstore.delete(store_of(self._path), name)
        return False

    def _commit(self, actions: list[dict[str, Any]], paths: list[str]) -> bool:
        """Commit as the next free version; see `compact`."""
        content = "\n".join(json.dumps(action, ensure_ascii=False, separators=(",", ":")) for action in actions)
        schema = self._schema
        while True:
            try:
                create_file(self._path, log_name(self.version + 1), content.encode())
                break
            except FileExistsError:
                made = self._read_next()
            if _id_of(made) == _id_of(actions):
                break  # ours: its answer was lost, and it was sent again
            self._take_in(made)
            if self._schema is not schema or not self.sizes.keys() >= set(paths):
                return False
        self._take_in(actions)
        return True

    def _read_next(self) -> list[dict[str, Any]]:
        """Raises FileNotFoundError without a next commit."""
        return actions_in(read_file(self._path, log_name(self.version + 1))[0])

    def _take_in(self, actions: list[dict[str, Any]]) -> None:
        if any("metaData" in action or "protocol" in action for action in actions):
            self.open()
            return
        for path in (action["remove"]["path"] for action in actions if "remove" in action):
            self.sizes.pop(path, None)
        self._add((action["add"]["path"], action["add"]["size"]) for action in actions if "add" in action)
        self.version += 1

    def _add(self, files: Iterable[tuple[str, int]]) -> None:
        """A name with other characters than Delta's writers use may be written in two ways: it is left out."""
        if not self._has_vectors:
            self.sizes.update((path, size) for path, size in files if size < self._limit and quote(path) == path)


def _commit_info(at_ms: int) -> dict[str, Any]:
    return {
        "timestamp": at_ms,
        "operation": "OPTIMIZE",
        "operationParameters": {"predicate": "[]"},
        "isBlindAppend": False,
        "engineInfo": ENGINE,
        "txnId": str(uuid.uuid4()),
    }


def _id_of(actions: Sequence[Mapping[str, Any]]) -> str | None:
    return next((action["commitInfo"].get("txnId") for action in actions if "commitInfo" in action), None)
