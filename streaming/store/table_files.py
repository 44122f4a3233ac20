"""One Delta table's files as its log names them, with the span of time that each covers.

Those of an object store are copied to this machine first.
"""

from datetime import datetime
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from conf.location import Location, is_store
from schemas.tables import Table
from streaming.system.known_error import BalancewatchError
from streaming.text.result import values_of
from streaming.text.times import to_ms
from streaming.warehouse.copies_folder import StoreError
from streaming.warehouse.delta_log import in_one_line
from streaming.warehouse.file_copies import FileCopies
from streaming.warehouse.opening import catch_up, open_delta
from streaming.warehouse.tables import table_path

Span = tuple[int | None, int | None]
"""The first and the last ms of a file's rows; None where the log does not say."""


class UnreadableTableError(BalancewatchError):
    """There is a table, and its log cannot be read. The message names the table."""


class TableFiles:
    """Follows one table's log. `version` is None while nobody has written it.

    `readable` is the condition in SQL of rows that can be read, where some of `looked_at`'s cannot: `left_out` so far.
    """

    def __init__(self, warehouse: Location, table: Table) -> None:
        self.table = table
        self.version: int | None = None
        self.readable = ""
        self.left_out = 0
        self.looked_at: set[str] = set()
        self._path = table_path(warehouse, table.name)
        self._handle: DeltaTable | None = None
        self._uris: list[str] = []
        self._paths: list[str] = []
        self._spans: list[Span] | None = None

    def look(self, *, again: bool = False) -> bool:
        """Read on, or with `again` anew; whether it is another version than before. Raises UnreadableTableError."""
        before = self.version
        try:
            if self._handle is None or again:
                self._handle = open_delta(self._path)
            else:
                catch_up(self._handle)
            self.version = int(self._handle.version())
            if self.version != before or again:
                self._spans = None
                self._uris = self._handle.file_uris()
                self._paths = self._here()
        except TableNotFoundError:
            self._handle, self.version, self._uris, self._paths, self._spans = None, None, [], [], None
        except (DeltaError, OSError, StoreError) as error:
            # A log that was cleaned up, or written anew, is read from its beginning.
            self._handle, self.version = None, before
            raise UnreadableTableError(f"table {self.table.name} cannot be read: {in_one_line(error)}") from None
        return self.version != before or again

    def paths(self) -> list[str]:
        """Of all files, on this machine."""
        return self._paths

    def _here(self) -> list[str]:
        if not is_store(self._path):
            return [unquote(uri) for uri in self._uris]
        copies = FileCopies(self._path)
        try:
            here = copies.fetch(self._uris)
        except FileNotFoundError:  # vacuum took one since the log was read
            self._handle = open_delta(self._path)
            self.version, self._uris = int(self._handle.version()), self._handle.file_uris()
            here = copies.fetch(self._uris)
        copies.keep_only(here)
        return here

    def between(self, since_ms: int | None, until_ms: int | None) -> list[str]:
        """Of the files that may have rows with times in [since, until]."""
        if self._handle is None or (since_ms is None and until_ms is None):
            return self._paths
        if self._spans is None:
            self._spans = self._read_spans(self._handle)
        return [
            path
            for path, (first_ms, last_ms) in zip(self._paths, self._spans, strict=True)
            if (since_ms is None or last_ms is None or last_ms >= since_ms)
            and (until_ms is None or first_ms is None or first_ms <= until_ms)
        ]

    def _read_spans(self, handle: DeltaTable) -> list[Span]:
        """Of the files in their order. The log's times are cut to ms."""
        columns = ["path", *(f"{end}.{self.table.time}" for end in ("min", "max"))]
        spans: dict[str, Span] = {}
        for batch in pa.RecordBatchReader.from_stream(handle.get_add_actions(flatten=True)):
            if set(columns) <= set(batch.schema.names):
                rows = zip(*(values_of(batch.column(name)) for name in columns), strict=True)
                spans |= {_name_of(path): (_ms(first), _ms(last)) for path, first, last in rows}
        return [spans.get(_name_of(path), (None, None)) for path in self._uris]


def _ms(time: datetime | None) -> int | None:
    return None if time is None else to_ms(time)


def _name_of(path: str) -> str:
    """Of the file alone: the log has relative paths."""
    return unquote(path).rpartition("/")[2]
