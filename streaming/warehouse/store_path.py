"""A path in a bucket, with those calls of pathlib.Path that a checkpoint needs.

An object is written at once, and is durable once the store has answered.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import obstore
from obstore.exceptions import BaseError

from streaming.warehouse.table_store import store_of, why_not, write_file


class StorePath:
    """The object or folder `name` below the URL `root`. Raises OSError for a bucket that does not answer."""

    def __init__(self, root: str, name: str = "") -> None:
        self._root, self._path = root, name

    def __truediv__(self, name: str) -> "StorePath":
        return StorePath(self._root, f"{self._path}/{name}".lstrip("/"))

    def __str__(self) -> str:
        return f"{self._root}/{self._path}".rstrip("/")

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    @property
    def parent(self) -> "StorePath":
        return StorePath(self._root, self._path.rpartition("/")[0])

    def read_bytes(self) -> bytes:
        """Raises FileNotFoundError."""
        with self._answering():
            return bytes(obstore.get(store_of(self._root), self._path).bytes())

    def read_text(self) -> str:
        return self.read_bytes().decode()

    def write_text(self, text: str) -> None:
        with self._answering():
            write_file(self._root, self._path, text.encode())

    def is_file(self) -> bool:
        try:
            with self._answering():
                obstore.head(store_of(self._root), self._path)
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """Whether there is any object below it."""
        return any(True for _ in self.iterdir())

    def iterdir(self) -> Iterator["StorePath"]:
        """Yield the objects and folders right below it."""
        with self._answering():
            found = obstore.list_with_delimiter(store_of(self._root), self._path)
        paths = [*(found["common_prefixes"]), *(one["path"] for one in found["objects"])]
        yield from (StorePath(self._root, path) for path in paths)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except BaseError as error:
            said = f"{type(error).__name__} {error}"
            raise OSError(errno.EIO, why_not(self._root, said, "paths.checkpoints")) from None
