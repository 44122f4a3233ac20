"""Where a table's files are: a folder, or a prefix of an object store, behind the same few calls."""

from pathlib import Path

from obstore.store import LocalStore, ObjectStore, from_url

__all__ = ["ObjectStore", "store_of"]


def store_of(path: str) -> ObjectStore:
    """The store whose root is the table. Credentials of an object store come from the environment."""
    return from_url(path) if "://" in path else LocalStore(Path(path))
