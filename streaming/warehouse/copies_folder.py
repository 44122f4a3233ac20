"""Where copies of a store's files are on this machine: in the user's cache, a folder an address and an endpoint."""

import hashlib
import os
from pathlib import Path

from conf.location import Location, is_store
from streaming.system.known_error import BalancewatchError


def copies_folder(location: str) -> Path:
    """Where copies of what is under that address are. XDG_CACHE_HOME names another cache."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    return root / "balancewatch" / "tables" / digest(f"{endpoint} {location}")


def local_folder(location: Location) -> Path:
    """Where the files of what is under that address are on this machine: there, or as copies of a store's."""
    return copies_folder(str(location)) if is_store(location) else Path(location)


class StoreError(BalancewatchError):
    """A store does not give a file."""


def digest(text: str) -> str:
    """A name of it that is a file's whatever the text is."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
