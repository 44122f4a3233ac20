"""Appends to a Delta table that read nothing of it, so that one costs the same however long the table's history is.

delta-rs goes through the metadata of every active file at each commit. An append depends on none of them: rows become
one Parquet file, and a commit that is created only if its version is free makes them part of the table. Everything else
(reading, checkpoints of the log, compaction, deletes) is delta-rs'. Source: Delta's PROTOCOL.md, "Delta Log Entries",
"Add File", "Transaction Identifiers".
"""

import json
import threading
import time
import uuid
from io import BytesIO
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Transaction
from obstore.exceptions import AlreadyExistsError, BaseError

from streaming.text.times import wall_ms
from streaming.warehouse.append_contract import contract_of
from streaming.warehouse.delta_log import log_name
from streaming.warehouse.file_statistics import statistics_of
from streaming.warehouse.opening import open_delta
from streaming.warehouse.table_store import store_of

ENGINE = "balancewatch"
TRUST_SECONDS = 60.0
"""So long after the last look nobody can have cleaned away commits that this has not seen: those live for hours."""
FAR_BEHIND = 100
"""Commits of others that are read one by one; behind more of them the table is opened anew."""


class Appender:
    """One table, whose other writers may be `maintain`, Spark, or another appender. Threads may share it."""

    def __init__(self, path: str, handle: DeltaTable | None = None) -> None:
        """`handle` is the table, if it is open. Raises TableNotFoundError without one, else AppendRefusedError where
        an append must do more than append.
        """
        self._path, self._store = path, store_of(path)
        self._lock = threading.Lock()
        self._look(open_delta(path) if handle is None else handle)

    @property
    def version(self) -> int:
        """The newest that this has read or written."""
        return self._version

    def append(self, rows: pa.Table, transaction: Transaction | None = None) -> int | None:
        """One file and one commit, whose version it returns; None, and nothing, under a transaction that is in already.

        Raises AppendRefusedError for rows that are not the table's, or a table that was altered meanwhile to one that
        an append would break.
        """
        with self._lock:
            if abs(time.time() - self._looked_at) > TRUST_SECONDS:  # by the wall clock, which goes on in a suspend
                self._look_for_checkpoint()
            if transaction is not None and self._is_in(transaction):
                return None
            self._contract.check(rows)
            if rows.num_rows == 0:
                return self._version if self._commit([_info(), *_txn(transaction)], rows, transaction) else None
            name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
            content = _parquet(rows)
            obstore.put(self._store, name, content)
            actions = [_info(), *_txn(transaction), _add(name, len(content), rows)]
            if self._commit(actions, rows, transaction):
                return self._version
            obstore.delete(self._store, name)
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

    def _is_in(self, transaction: Transaction) -> bool:
        app_id = transaction.app_id
        if app_id not in self._done:
            known = self._handle.transaction_version(app_id)
            self._done[app_id] = -1 if known is None else int(known)
        return self._done[app_id] >= int(transaction.version)

    def _commit(self, actions: list[dict[str, Any]], rows: pa.Table, transaction: Transaction | None) -> bool:
        """Take the next version that is free. False where somebody has written this transaction in between."""
        commit_id = actions[0]["commitInfo"]["txnId"]
        lines = (json.dumps(action, ensure_ascii=False, separators=(",", ":")) for action in actions)
        content = "\n".join(lines).encode()
        lost = 0
        while True:
            try:
                obstore.put(self._store, log_name(self._version + 1), content, mode="create")
                break
            except AlreadyExistsError:
                if self._take_in(commit_id):
                    break  # ours: its answer was lost, and it was sent again
                lost += 1
            except BaseError:
                if not self._is_there(commit_id):
                    raise
                break
            if lost % FAR_BEHIND == 0:
                self._look(open_delta(self._path))
            if transaction is not None and self._is_in(transaction):
                return False
            self._contract.check(rows)
        self._version += 1
        self._looked_at = time.time()
        if transaction is not None:
            self._done[transaction.app_id] = transaction.version
        return True

    def _is_there(self, commit_id: str) -> bool:
        """Whether the next commit is the one that is being written, of which a store said nothing clear."""
        try:
            return self._take_in(commit_id)
        except FileNotFoundError:
            return False

    def _take_in(self, commit_id: str) -> bool:
        """Read the next commit, which is another's; True where it is the one that is being written."""
        actions = _read(bytes(obstore.get(self._store, log_name(self._version + 1)).bytes()))
        if any(action.get("commitInfo", {}).get("txnId") == commit_id for action in actions):
            return True
        self._version += 1
        for action in actions:
            if "txn" in action:
                self._done[action["txn"]["appId"]] = int(action["txn"]["version"])
        if any("metaData" in action or "protocol" in action for action in actions):
            self._look(open_delta(self._path))
        return False


def _read(content: bytes) -> list[dict[str, Any]]:
    """The actions of a commit. One that is empty, as a power cut leaves a file, has none."""
    return [json.loads(line) for line in content.split(b"\n") if line.strip()]


def _parquet(rows: pa.Table) -> bytes:
    sink = BytesIO()
    pq.write_table(rows.replace_schema_metadata(None), sink, compression="snappy")
    return sink.getvalue()


def _info() -> dict[str, Any]:
    """What a commit says of itself; `txnId` tells ours from another's."""
    info = {
        "timestamp": wall_ms(),
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "isBlindAppend": True,
        "engineInfo": ENGINE,
        "txnId": str(uuid.uuid4()),
    }
    return {"commitInfo": info}


def _txn(transaction: Transaction | None) -> list[dict[str, Any]]:
    if transaction is None:
        return []
    return [{"txn": {"appId": transaction.app_id, "version": transaction.version, "lastUpdated": wall_ms()}}]


def _add(name: str, size: int, rows: pa.Table) -> dict[str, Any]:
    add = {
        "path": name,
        "partitionValues": {},
        "size": size,
        "modificationTime": wall_ms(),
        "dataChange": True,
        "stats": statistics_of(rows),
    }
    return {"add": add}
