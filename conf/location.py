"""Where the tables are: a folder, or a prefix in a bucket of an object store, which is told by its address."""

from pathlib import Path
from typing import TypeAlias

Location: TypeAlias = Path | str
"""A store's address is text: as a path it would lose one of its slashes."""


def is_store(location: Location) -> bool:
    """Whether it is an address."""
    return "://" in str(location)
