"""Damage that a power cut leaves to a file that was not synced."""

from pathlib import Path


def empty(path: Path) -> None:
    path.write_bytes(b"")


def fill_with_nul(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def lose(path: Path) -> None:
    path.unlink()
