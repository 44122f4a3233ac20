"""Reading of tables row by row: unreadable rows are skipped and logged once.

`read_table` works without DuckDB, which a separate relay does not load. SQL queries go through streaming.store, which
skips the same rows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs
from pyarrow.dataset import FileSystemDataset, ParquetFileFormat, ParquetFragmentScanOptions

from conf.location import Location
from schemas.tables import ColumnType, Table
from streaming.text.result import records_of
from streaming.warehouse.rows import arrow_schema
from streaming.warehouse.tables import open_delta, table_path
from streaming.warehouse.warehouse_error import NotWrittenError

log = structlog.get_logger()

Row = Mapping[str, Any]
Read = TypeVar("Read")

UNREADABLE = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
"""Errors of reading a row with a null or malformed value."""

MOST_SAID = 1_000
_said: dict[tuple[str, str], None] = {}


def read_rows(table: str, rows: pa.Table | pa.RecordBatch, read: Callable[[Row], Read]) -> list[Read]:
    """Return the results of `read`; unreadable rows are skipped and logged."""
    results = []
    for row in records_of(rows):
        try:
            results.append(read(row))
        except UNREADABLE as error:
            say_left_out(table, row, error)
    return results


def open_written(warehouse: Location, table: Table) -> DeltaTable:
    """Open a table. Raises NotWrittenError if it does not exist, or DeltaError if it cannot be read."""
    try:
        return open_delta(table_path(warehouse, table.name))
    except TableNotFoundError:
        raise NotWrittenError(warehouse, table.name) from None


def read_table(
    warehouse: Location,
    table: Table,
    where: pc.Expression | None = None,
    columns: Sequence[str] = (),
    *,
    having: Mapping[str, str] | None = None,
    newest: bool = False,
    read: Callable[[Row], Row] | None = None,
) -> list[Row]:
    """Return the rows that match the condition and the contract, ordered by time.

    having    values by column: files that have none of them are not opened
    newest    only the newest row of each key
    columns   default: all; must include the table's time and batch_id
    read      converts a row, and keeps its time comparable

    Raises NotWrittenError if the table does not exist.
    """
    found = read_files(table, open_written(warehouse, table), columns, where, having)
    check = whole(table)
    rows = read_rows(table.name, found, check if read is None else lambda row: read(check(row)))
    rows.sort(key=lambda row: (row[table.time], row["batch_id"]))
    return list({tuple(row[name] for name in table.key): row for row in rows}.values()) if newest else rows


def whole(table: Table) -> Callable[[Row], Row]:
    """Return a function that raises ValueError for a row that breaks the contract in the columns it has."""
    required = [one.name for one in table.columns if one.is_required]
    times = [one.name for one in table.columns if one.type is ColumnType.TIMESTAMP]

    def read(row: Row) -> Row:
        if missing := next((name for name in required if name in row and row[name] is None), None):
            raise ValueError(f"{missing} is null")
        if odd := next((name for name in times if isinstance(row.get(name), str)), None):
            raise ValueError(f"{odd} is {row[odd]}")
        return row

    return read


def read_files(
    contract: Table,
    table: DeltaTable,
    columns: Sequence[str] = (),
    where: pc.Expression | None = None,
    having: Mapping[str, str] | None = None,
) -> pa.Table:
    """Return the rows of all readable files. Damaged files are logged; alerts recorded in them may be sent again.

    Columns of the contract that an older release's table lacks are null. `having` is that of read_table.
    """
    equal = [(name, "=", value) for name, value in (having or {}).items()]
    for name, _, value in equal:
        where = (pc.field(name) == value) if where is None else where & (pc.field(name) == value)
    dataset = dataset_of(contract, table, table.file_uris(file_pruning_predicate=equal or None))
    names = list(columns) or dataset.schema.names
    try:
        return dataset.to_table(names, filter=where)
    except (pa.ArrowInvalid, OSError) as error:
        if not _is_damaged(error):
            raise
    found = [dataset.schema.empty_table().select(names)]
    for fragment in dataset.get_fragments():
        try:
            found.append(fragment.to_table(dataset.schema, names, filter=where))
        except (pa.ArrowInvalid, OSError) as error:
            if not _is_damaged(error):
                raise
            if _is_new(contract.name, fragment.path):
                log.error("unreadable file skipped", table=contract.name, file=fragment.path, reason=why(error))
    return pa.concat_tables(found)


def dataset_of(contract: Table, table: DeltaTable, files: Iterable[str]) -> FileSystemDataset:
    """Return these files of the table, without the statistics of its log.

    delta-rs makes an Arrow expression of them for each file: half a millisecond, more than a small file takes to read.
    """
    scheme, _, path = table.table_uri.partition("://")
    if scheme == "file":
        root = unquote(path)
        filesystem = fs.SubTreeFileSystem(root, fs.LocalFileSystem())
    else:
        root, adds = table.table_uri, table.get_add_actions()
        sizes = dict(zip(adds["path"].to_pylist(), adds["size_bytes"].to_pylist(), strict=True))
        filesystem = fs.PyFileSystem(DeltaStorageHandler(root, None, sizes))
    kind = ParquetFileFormat(default_fragment_scan_options=ParquetFragmentScanOptions(pre_buffer=True))
    fragments = [kind.make_fragment(file.removeprefix(root).lstrip("/"), filesystem) for file in files]
    return FileSystemDataset(fragments, arrow_schema(contract), kind, filesystem)


def _is_damaged(error: Exception) -> bool:
    """Whether Arrow cannot decode the file; a missing or forbidden one raises an error of the system."""
    return isinstance(error, pa.ArrowInvalid) or (isinstance(error, OSError) and error.errno is None)


def say_left_out(table: str, row: Row, error: Exception) -> None:
    """Log an unreadable row, once."""
    known = {name: str(value)[:80] for name, value in row.items() if name.endswith("_id") and value is not None}
    if _is_new(table, str(sorted(known.items()))):
        log.warning("unreadable row skipped", table=table, row=known, reason=why(error))


def say_nameless(table: str, rows: pa.Table) -> None:
    """Log once for each table that it has rows without an incident_id, which are never read."""
    if rows["incident_id"].null_count and _is_new(table, "incident_id"):
        log.warning("unreadable row skipped", table=table, row={}, reason="incident_id is null")


def _is_new(table: str, what: str) -> bool:
    is_new = (table, what) not in _said and len(_said) < MOST_SAID
    if is_new:
        _said[table, what] = None
    return is_new


def why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200] if not isinstance(error, ValueError) else str(error)[:200]
