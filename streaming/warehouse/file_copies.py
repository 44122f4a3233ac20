"""Data files of a store's table, copied to this machine for DuckDB, which has no network and no credentials.

Delta's files never change, so each is fetched once. The copies are in the user's cache, readable only by the owner;
files that a table no longer has are deleted as its log is read.
"""

import hashlib
import os
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import obstore
from deltalake import DeltaTable
from obstore.exceptions import BaseError

from streaming.system.private_folder import make_private
from streaming.warehouse.table_store import store_of


def copies_folder(location: str) -> Path:
    """Return the folder of the copies from that address. XDG_CACHE_HOME names another cache."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    return root / "balancewatch" / "tables" / digest(f"{endpoint} {location}")


def digest(text: str) -> str:
    """Return a valid file name for any text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


FETCHERS = 16
KEPT_SECONDS = 3_600.0
"""For readers of an older version."""


def files_here(handle: DeltaTable, uris: Sequence[str]) -> list[str]:
    """Return the paths on this machine of files that the table's handle names, in their order.

    Files of a bucket are copied, flat under `copies_folder`. Raises FileNotFoundError for a deleted file, or OSError.
    """
    table = str(handle.table_uri).rstrip("/")
    if not table.startswith("s3://"):
        return [unquote(uri) for uri in uris]
    folder = make_private(_copies_of(table))
    names = [unquote(uri).removeprefix(table).lstrip("/") for uri in uris]
    copies = {name: folder / f"{digest(name)}.parquet" for name in names}
    there = set(os.listdir(folder))  # noqa: PTH208  # of thousands the names are enough
    missing = [(name, copy) for name, copy in copies.items() if copy.name not in there]
    if missing:
        store = store_of(table)
        with ThreadPoolExecutor(FETCHERS) as fetchers:
            try:
                list(fetchers.map(lambda one: _fetch(store, *one), missing))
            except BaseError as error:
                raise OSError(f"{table}: a file cannot be fetched ({type(error).__name__})") from None
    return [str(copies[name]) for name in names]


def delete_other_copies(table: str, copies: Sequence[str]) -> None:
    """Delete all other copies of the table's files that are older than KEPT_SECONDS."""
    folder, kept = _copies_of(table), {Path(copy).name for copy in copies}
    for name in set(os.listdir(folder)) - kept:  # noqa: PTH208  # the same
        with suppress(OSError):  # another process has deleted it
            if time.time() - (folder / name).stat().st_mtime > KEPT_SECONDS:
                (folder / name).unlink()


def _copies_of(table: str) -> Path:
    warehouse, _, name = table.rpartition("/")
    return copies_folder(warehouse) / name


def _fetch(store: object, name: str, copy: Path) -> None:
    """Write the complete copy, or none."""
    content = obstore.get(store, name).bytes()  # type: ignore[arg-type]  # as store_of gives it
    partial = copy.with_name(f".{uuid.uuid4()}")
    try:
        partial.touch(mode=0o600)
        partial.write_bytes(memoryview(content))
        partial.rename(copy)
    finally:
        partial.unlink(missing_ok=True)
