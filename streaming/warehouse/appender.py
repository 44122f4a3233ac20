"""Appends to a Delta table that read nothing of it, so that one costs the same however long the table's history is.

delta-rs goes through the metadata of every active file at each commit. An append depends on none of them: rows become
one Parquet file, and a commit that is created only if its version is free makes them part of the table. Everything else
(reading, checkpoints of the log, deletes) is delta-rs'. Source: Delta's PROTOCOL.md, "Delta Log Entries",
"Add File", "Transaction Identifiers".
"""

import json
import math
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Transaction
from obstore.exceptions import BaseError

from streaming.system.known_error import BalancewatchError
from streaming.text.times import wall_ms
from streaming.warehouse.delta_log import log_name, read_actions
from streaming.warehouse.table_store import create_file, store_of, write_file
from streaming.warehouse.tables import open_delta

ORDERED = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_timestamp)
"""Types whose columns have bounds."""

LONGEST = 64
"""Characters of a string that may be a bound."""

_ALMOST_A_MS = timedelta(microseconds=999)


def statistics_of(rows: pa.Table) -> dict[str, Any]:
    """Return an add action's `stats`; booleans, bytes and lists only have null counts."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        nulls[name] = column.null_count
        if column.null_count < len(column) and any(is_kind(column.type) for is_kind in ORDERED):
            bounds = pc.min_max(column).as_py()
            put = _bounds(bounds["min"], bounds["max"], column)
            if put is not None:
                least[name], greatest[name] = put
    return {"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def merged_statistics(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the statistics of all rows from those of their parts, of the same columns.

    A bound holds if each part with a value has it.
    """
    columns = parts[0]["nullCount"] if parts else {}
    filled = {name: [one for one in parts if one["nullCount"][name] < one["numRecords"]] for name in columns}
    bounds = {
        end: {
            name: pick(one[end][name] for one in filled[name])
            for name in columns
            if filled[name] and all(name in one[end] for one in filled[name])
        }
        for end, pick in (("minValues", min), ("maxValues", max))
    }
    nulls = {name: sum(one["nullCount"][name] for one in parts) for name in columns}
    return {"numRecords": sum(one["numRecords"] for one in parts), **bounds, "nullCount": nulls}


def _bounds(least: Any, greatest: Any, column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """None where a bound cannot be written so that it holds."""
    if isinstance(least, str):
        return (least, greatest) if max(len(least), len(greatest)) <= LONGEST else None
    if isinstance(least, float):
        is_plain = math.isfinite(least) and math.isfinite(greatest) and not pc.any(pc.is_nan(column)).as_py()
        return (least, greatest) if is_plain else None
    if isinstance(least, datetime):  # Delta keeps milliseconds: the least goes down, the greatest up
        return _text(least), _text(greatest + _ALMOST_A_MS)
    return least, greatest


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


KEPT_BY_ANY_APPEND = frozenset(
    {
        "appendOnly",
        "changeDataFeed",  # rows of an added file count as inserted
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "identityColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Features that an append keeps while the metadata does not use them."""

NEWEST_WRITER = 7

IN_METADATA = {
    "delta.invariants": "invariants",
    "delta.generationExpression": "generated columns",
    "delta.identity.start": "identity columns",
    "CURRENT_DEFAULT": "column defaults",
}
"""A column's metadata that makes writers compute or check something."""


class AppendRefusedError(BalancewatchError):
    """A blind append would break the table, or lacks columns. The message names the table and what to change."""


class TableGoneError(BalancewatchError):
    """The folder of an open table was deleted, moved or unmounted. The message names it."""


@dataclass(frozen=True)
class AppendContract:
    """The columns of one version of a table: `types` by name, and the names of those that may not be null."""

    table: str
    types: dict[str, pa.DataType]
    required: frozenset[str]

    def check(self, rows: pa.Table) -> None:
        """Raises AppendRefusedError for a column that is not there, of another type, or null where it may not be."""
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            if name not in self.types:
                raise AppendRefusedError(f"{self.table} has no column {name}; start `balancewatch run` to add it")
            if column.type != self.types[name]:
                raise AppendRefusedError(
                    f"{self.table}: column {name} has type {self.types[name]}, but this release writes {column.type}; "
                    "move the table away, or set another paths.warehouse"
                )
            if name in self.required and column.null_count:
                raise AppendRefusedError(f"{self.table}: {column.null_count} rows have no {name}, which is required")
        missing = self.required - set(rows.column_names)
        if missing:
            raise AppendRefusedError(f"{self.table}: the rows lack {', '.join(sorted(missing))}, which are required")


def contract_of(handle: DeltaTable) -> AppendContract:
    """Of the version that the handle has read. Raises AppendRefusedError where an append must do more than append."""
    path = handle.table_uri
    found = sorted(_in_use(handle))
    if found:
        raise AppendRefusedError(
            f"{path} uses {', '.join(found)}, which balancewatch does not support when it appends; drop it from the "
            "table (ALTER TABLE ... DROP FEATURE, or unset its property), or set another paths.warehouse"
        )
    fields = handle.schema().fields
    arrow = pa.schema(handle.schema().to_arrow())
    return AppendContract(
        path,
        {field.name: _plain(arrow.field(field.name).type) for field in fields},
        frozenset(field.name for field in fields if not field.nullable),
    )


def _in_use(handle: DeltaTable) -> set[str]:
    """What writers must keep in this table beyond its columns, in words a person can look up."""
    protocol, metadata = handle.protocol(), handle.metadata()
    properties = {name.lower(): value for name, value in metadata.configuration.items()}
    features = set(protocol.writer_features or ())
    found = {f"the table feature {name}" for name in features - KEPT_BY_ANY_APPEND}
    if protocol.min_writer_version > NEWEST_WRITER:
        found.add(f"writer version {protocol.min_writer_version}")
    if metadata.partition_columns:
        found.add(f"partitions (by {', '.join(metadata.partition_columns)})")
    if any(name.startswith("delta.constraints.") for name in properties):
        found.add("check constraints")
    if properties.get("delta.columnmapping.mode", "none").lower() != "none":
        found.add("column mapping")
    for field in handle.schema().fields:
        found |= {f"{words} ({field.name})" for key, words in IN_METADATA.items() if key in field.metadata}
    return found


def _plain(type_: pa.DataType) -> pa.DataType:
    """A type as pyarrow makes it of rows: delta-rs names a list's values, and may take larger offsets."""
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(_plain(type_.value_type))
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_):
        return pa.binary()
    return type_


ENGINE = "balancewatch"
TRUST_SECONDS = 60.0
"""Time after a read of the log in which no unread commit can have been deleted: commits live for hours."""
FAR_BEHIND = 100
"""Commits of others that are read one by one; behind more of them the table is opened anew."""


class Appender:
    """Appends to one table, which other writers may change meanwhile. Threads may share it."""

    def __init__(self, path: str, handle: DeltaTable | None = None, *, is_synced: bool = True) -> None:
        """`handle` is the table, if it is open; with `is_synced` appends survive a power cut.

        Raises TableNotFoundError without a table, AppendRefusedError where an append must do more than append.
        """
        self._path, self._store, self._is_synced = path, store_of(path), is_synced
        self._lock = threading.Lock()
        self._failed = ""
        """The id of the last commit, if it failed."""
        self._look(open_delta(path) if handle is None else handle)

    @property
    def version(self) -> int:
        return self._version

    def is_failed_there(self) -> bool:
        """Return whether the append that failed last is in the table nevertheless: only its answer was lost."""
        with self._lock, suppress(FileNotFoundError):
            while self._failed:
                if self._take_in(self._failed):
                    self._version += 1
                    self._failed = ""
                    return True
        return False

    def append(self, rows: pa.Table, transaction: Transaction | None = None) -> int | None:
        """One file and one commit, whose version it returns; None, and nothing, under a transaction that is in already.

        Raises AppendRefusedError for rows that are not the table's, or a
        table that was altered meanwhile to one that an append would break; TableGoneError if its folder is gone.
        """
        with self._lock:
            try:
                return self._append(rows, transaction)
            except FileNotFoundError as error:
                raise TableGoneError(
                    f"{self._path}: the folder of the table has disappeared; mount its volume again, or move it back"
                ) from error

    def _append(self, rows: pa.Table, transaction: Transaction | None) -> int | None:
        if abs(time.time() - self._looked_at) > TRUST_SECONDS:  # the wall clock also counts a suspension
            self._look_for_checkpoint()
        if transaction is not None and self._is_in(transaction):
            return None
        self._contract.check(rows)
        actions = _begin_actions(transaction)
        if rows.num_rows == 0:
            return self._version if self._commit(actions, rows, transaction) else None
        sink = BytesIO()
        pq.write_table(rows.replace_schema_metadata(None), sink, compression="snappy")
        add = add_file(self._path, "snappy", sink.getvalue(), statistics_of(rows), is_synced=self._is_synced)
        if self._commit([*actions, {"add": add}], rows, transaction):
            return self._version
        obstore.delete(self._store, add["path"])
        return None

    def _look(self, handle: DeltaTable) -> None:
        """Take the table as it is: what it asks of appends, its version, and which transactions are in."""
        self._contract, self._version = contract_of(handle), int(handle.version())
        self._handle = handle
        self._done: dict[str, int] = {}
        self._looked_at = time.time()

    def _look_for_checkpoint(self) -> None:
        """Commits are cleaned away before a checkpoint alone: one beyond our version hides what came since."""
        try:
            newest = json.loads(bytes(obstore.get(self._store, "_delta_log/_last_checkpoint").bytes()))
            is_behind = int(newest["version"]) > self._version
        except FileNotFoundError:
            is_behind = False
        except (ValueError, LookupError, TypeError):  # a hint, which a power cut may have emptied
            is_behind = True
        if is_behind:
            self._look(open_delta(self._path))
        self._looked_at = time.time()

    def newest(self, app_id: str) -> int:
        """Return the newest transaction of the application that is in the table; -1 without one."""
        if app_id not in self._done:
            known = self._handle.transaction_version(app_id)
            self._done[app_id] = -1 if known is None else int(known)
        return self._done[app_id]

    def _is_in(self, transaction: Transaction) -> bool:
        return self.newest(transaction.app_id) >= int(transaction.version)

    def _commit(self, actions: list[dict[str, Any]], rows: pa.Table, transaction: Transaction | None) -> bool:
        """Commit as the next free version. Return False if another writer has committed this transaction."""
        commit_id = self._failed = actions[0]["commitInfo"]["txnId"]
        lost = 0
        while True:
            try:
                create_commit(self._path, self._version + 1, actions, is_synced=self._is_synced)
                break
            except FileExistsError:
                if self._take_in(commit_id):
                    break  # ours: its answer was lost, and it was sent again
                lost += 1
            except BaseError:
                is_there = False  # the store said nothing clear
                with suppress(FileNotFoundError):
                    is_there = self._take_in(commit_id)
                if not is_there:
                    raise
                break
            if lost % FAR_BEHIND == 0:
                self._look(open_delta(self._path))
            if transaction is not None and self._is_in(transaction):
                self._failed = ""
                return False
            self._contract.check(rows)
        self._version += 1
        self._failed = ""
        self._looked_at = time.time()
        if transaction is not None:
            self._done[transaction.app_id] = transaction.version
        return True

    def _take_in(self, commit_id: str) -> bool:
        """Read the next commit, which is another's; True where it is the one that is being written."""
        actions = read_actions(self._path, self._version + 1)
        if is_commit(actions, commit_id):
            return True
        self._version += 1
        for action in actions:
            if "txn" in action:
                self._done[action["txn"]["appId"]] = int(action["txn"]["version"])
        if any("metaData" in action or "protocol" in action for action in actions):
            self._look(open_delta(self._path))
        return False


def add_file(
    path: str, codec: str, content: bytes, stats: Mapping[str, Any], *, is_synced: bool = True, is_new: bool = True
) -> dict[str, Any]:
    """Write a file of rows and return its add action. `is_new`: the table did not have the rows before."""
    name = f"part-00000-{uuid.uuid4()}-c000.{codec}.parquet"
    write_file(path, name, content, is_synced=is_synced)
    file = {"path": name, "partitionValues": {}, "size": len(content), "modificationTime": wall_ms()}
    return {**file, "dataChange": is_new, "stats": _json(stats)}


def create_commit(path: str, version: int, actions: Iterable[Mapping[str, Any]], *, is_synced: bool = True) -> None:
    """Raises FileExistsError for a version that is taken."""
    create_file(path, log_name(version), "\n".join(map(_json, actions)).encode(), is_synced=is_synced)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def commit_info(operation: str, parameters: Mapping[str, str], *, is_blind: bool) -> dict[str, Any]:
    """Return the first action of a commit; its `txnId` identifies it."""
    by = {"engineInfo": ENGINE, "txnId": str(uuid.uuid4())}
    of = {"operation": operation, "operationParameters": dict(parameters), "isBlindAppend": is_blind}
    return {"commitInfo": {"timestamp": wall_ms(), **of, **by}}


def _begin_actions(transaction: Transaction | None) -> list[dict[str, Any]]:
    info = commit_info("WRITE", {"mode": "Append", "partitionBy": "[]"}, is_blind=True)
    if transaction is None:
        return [info]
    txn = {"appId": transaction.app_id, "version": transaction.version, "lastUpdated": wall_ms()}
    return [info, {"txn": txn}]


def is_commit(actions: Iterable[Mapping[str, Any]], commit_id: str) -> bool:
    """Return whether a commit's actions are those of the commit with this `txnId`."""
    return any(action.get("commitInfo", {}).get("txnId") == commit_id for action in actions)
