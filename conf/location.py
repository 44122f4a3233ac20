"""The location of tables or checkpoints: a folder, or the URL of a prefix in a bucket."""

from pathlib import Path
from typing import TypeAlias

Location: TypeAlias = Path | str
"""A URL is text: a Path would lose one of its slashes."""


def is_store(location: Location) -> bool:
    """Return whether the location is a URL."""
    return "://" in str(location)
