"""A table of a few columns, and rows of it."""

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

SCHEMA = pa.schema([pa.field("number", pa.int64(), nullable=False), pa.field("at", pa.timestamp("us", "UTC"))])


def make_table(path: Path, **configuration: str) -> str:
    """Empty, in the plain protocol, with such properties."""
    return make_table_at(str(path), **configuration)


def make_table_at(location: str, **configuration: str) -> str:
    """The same in a folder or in a bucket."""
    properties = {"delta.minReaderVersion": "1", "delta.minWriterVersion": "2"} | configuration
    DeltaTable.create(location, schema=SCHEMA, configuration=dict(properties), raise_if_key_not_exists=False)
    return location


def numbers(*values: int) -> pa.Table:
    """A row each, `at` so many milliseconds."""
    return pa.table({"number": list(values), "at": [value * 1000 for value in values]}, schema=SCHEMA)


def read(path: str) -> list[int]:
    """All numbers, in order, as delta-rs reads them."""
    rows: list[int] = DeltaTable(path).to_pyarrow_table()["number"].to_pylist()
    return sorted(rows)
