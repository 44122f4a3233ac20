"""A table of a few columns, rows of it, and writers at once."""

import contextlib
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from streaming.maintenance.files import MB
from streaming.maintenance.small_files import SmallFiles
from streaming.warehouse import appender as module
from streaming.warehouse.appender import Appender

SCHEMA = pa.schema([pa.field("number", pa.int64(), nullable=False), pa.field("at", pa.timestamp("us", "UTC"))])


def make_table(place: Path | str) -> str:
    """Empty, in the plain protocol, in a folder or in a bucket."""
    properties: dict[str, str | None] = {"delta.minReaderVersion": "1", "delta.minWriterVersion": "2"}
    DeltaTable.create(str(place), schema=SCHEMA, configuration=properties, raise_if_key_not_exists=False)
    return str(place)


def numbers(*values: int) -> pa.Table:
    """A row each, `at` so many milliseconds."""
    return pa.table({"number": list(values), "at": [value * 1000 for value in values]}, schema=SCHEMA)


def read(path: str) -> list[int]:
    """All numbers, in order, as delta-rs reads them."""
    rows: list[int] = DeltaTable(path).to_pyarrow_table()["number"].to_pylist()
    return sorted(rows)


def leave_orphan(path: str) -> None:
    """Die between a data file and its commit."""
    appender = Appender(path)
    with patch.object(module, "create_file", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        appender.append(numbers(1), Transaction("app", 1))


def append_beside_delta_rs(path: str, appenders: Sequence[Appender], each: int) -> int:
    """Check that appends of each thread, every one made twice, are in once beside appends of delta-rs and compactions.

    Two threads compact the same files. Return their number of compactions. delta-rs gives up now and then beside
    hundreds of commits a second.
    """
    failed: list[Exception] = []
    compacted: list[bool] = []

    def write(appender: Appender, place: int) -> None:
        try:
            for number in range(each):
                for _ in range(2):
                    appender.append(numbers(place * each + number), Transaction(f"app-{place}", number))
                time.sleep(0.002)
        except Exception as error:
            failed.append(error)

    def compact() -> None:
        try:
            files = SmallFiles(path, MB)
            while any(writer.is_alive() for writer in writers):
                files.follow()
                compacted.extend(map(files.compact, files.bins(MB)))
        except Exception as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(one, place)) for place, one in enumerate(appenders)]
    compactors = [threading.Thread(target=compact) for _ in range(2)]
    for thread in (*writers, *compactors):
        thread.start()
    others, patient = list[int](), CommitProperties(max_commit_retries=200)
    while any(writer.is_alive() for writer in writers):
        with contextlib.suppress(CommitFailedError, DeltaError):
            write_deltalake(path, numbers(100_000 + len(others)), mode="append", commit_properties=patient)
            others.append(100_000 + len(others))
        with contextlib.suppress(DeltaError):
            DeltaTable(path).create_checkpoint()
    for thread in compactors:
        thread.join()
    assert failed == []
    assert read(path) == [*range(len(appenders) * each), *others]
    return sum(compacted)
