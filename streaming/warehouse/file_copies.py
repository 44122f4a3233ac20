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
from pathlib import Path
from urllib.parse import unquote

import obstore
from deltalake import DeltaTable
from obstore.exceptions import BaseError

from conf.location import Location, is_store
from streaming.system.private_folder import make_private
from streaming.warehouse.table_store import store_of


def copies_folder(location: str) -> Path:
    """Return the folder of the copies from that address. XDG_CACHE_HOME names another cache."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    return root / "balancewatch" / "tables" / digest(f"{endpoint} {location}")


def local_folder(location: Location) -> Path:
    """Return the folder on this machine with the files, or the copies, of that address."""
    return copies_folder(str(location)) if is_store(location) else Path(location)


def digest(text: str) -> str:
    """Return a valid file name for any text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


FETCHERS = 16
KEPT_SECONDS = 3_600.0
"""For readers of an older version."""


class FileCopies:
    """Copies of the files of the table at an address, flat under `copies_folder`."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._folder = copies_folder(table.rpartition("/")[0]) / table.rpartition("/")[2]

    def fetch(self, uris: Sequence[str]) -> list[str]:
        """Return the copies in the order of the files. Raises FileNotFoundError for a deleted file, or OSError."""
        make_private(self._folder)
        names = [unquote(uri).removeprefix(self._table).lstrip("/") for uri in uris]
        copies = {name: self._folder / f"{digest(name)}.parquet" for name in names}
        there = set(os.listdir(self._folder))  # noqa: PTH208  # of thousands the names are enough
        missing = [(name, copy) for name, copy in copies.items() if copy.name not in there]
        if missing:
            store = store_of(self._table)
            with ThreadPoolExecutor(FETCHERS) as fetchers:
                try:
                    list(fetchers.map(lambda one: _fetch(store, *one), missing))
                except BaseError as error:
                    raise OSError(f"{self._table}: a file cannot be fetched ({type(error).__name__})") from None
        return [str(copies[name]) for name in names]

    def keep_only(self, copies: Sequence[str]) -> None:
        """Delete all other copies that are older than KEPT_SECONDS."""
        now, kept = time.time(), {Path(copy).name for copy in copies}
        for name in set(os.listdir(self._folder)) - kept:  # noqa: PTH208  # the same
            path = self._folder / name
            try:
                if now - path.stat().st_mtime > KEPT_SECONDS:
                    path.unlink()
            except OSError:  # another has
                continue


def files_here(handle: DeltaTable, uris: Sequence[str]) -> list[str]:
    """Return the paths on this machine of files that the table's handle names."""
    table = str(handle.table_uri).rstrip("/")
    return FileCopies(table).fetch(uris) if table.startswith("s3://") else [unquote(uri) for uri in uris]


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
