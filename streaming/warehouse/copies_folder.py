"""Where copies of a store's files are on this machine: in the user's cache, a folder an address and an endpoint."""

import hashlib
import os
from pathlib import Path


def copies_folder(location: str) -> Path:
    """Where copies of what is under that address are. XDG_CACHE_HOME names another cache."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    return root / "balancewatch" / "tables" / digest(f"{endpoint} {location}")


class StoreError(RuntimeError):
    """A store does not give a file."""


def digest(text: str) -> str:
    """A name of it that is a file's whatever the text is."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
