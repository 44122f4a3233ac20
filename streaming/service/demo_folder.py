"""The folder of a demo: what the demo made in it is the demo's to delete, and nothing else is."""

import contextlib
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

from streaming.warehouse.occupancy import Part, occupying

MARK = ".balancewatch-demo"
MADE = ("kafka", "warehouse", "checkpoints", "spark.log")
"""All that a demo makes beside its mark and its lock."""

TABLES = ("warehouse", "checkpoints")

OTHERS: tuple[Part, ...] = ("run", "relay")

_WORDS = (
    "`balancewatch demo` made this folder and deletes, when it starts here again: " + ", ".join(MADE) + ".\n"
    "Without this file it does not touch the folder.\n"
)


class DemoFolderError(ValueError):
    """The folder is not the demo's to empty. The message says what to do instead."""


class DemoFolder:
    """A folder that is a demo's own: new, empty, or marked by an earlier demo. In its context a demo has it alone."""

    def __init__(self, path: Path) -> None:
        """Touches nothing. Raises DemoFolderError when there is anything that no demo made."""
        self.path = path
        self._held = contextlib.ExitStack()
        try:
            names = {one.name for one in path.iterdir()} if path.exists() or path.is_symlink() else set()
        except OSError as error:
            raise DemoFolderError(f"--data-dir {path}: {error.strerror}; name another folder") from None
        if names and not self._is_marked():
            raise DemoFolderError(
                f"--data-dir {path} is not empty and has no {MARK}, so a demo would delete what it did not make; "
                f"name another folder, or delete it yourself where only an older version's demo used it"
            )

    def _is_marked(self) -> bool:
        mark = self.path / MARK
        try:
            return mark.is_file() and not mark.is_symlink() and mark.read_text().startswith(_WORDS.partition(":")[0])
        except (OSError, UnicodeDecodeError):
            return False

    def __enter__(self) -> Self:
        """Marked, and nobody else's while this demo lasts: no other demo's, no `run`'s, no relay's.

        Raises OccupiedError, or DemoFolderError where the folder cannot be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / MARK).write_text(_WORDS)
        except OSError as error:
            raise self._refused(error) from None
        with contextlib.ExitStack() as held:
            held.enter_context(occupying("demo", "demo", {"--data-dir": self.path}))
            self._refuse_others()
            self._held = held.pop_all()
        return self

    def empty(self) -> None:
        """Delete what an earlier demo left. Raises DemoFolderError, and OccupiedError where somebody uses it."""
        self._refuse_others()
        try:
            for name in MADE:
                _delete(self.path / name)
        except OSError as error:
            raise self._refused(error) from None

    def _refuse_others(self) -> None:
        """Somebody may have been pointed at the tables that a demo left."""
        folders = {f"--data-dir, {name}": self.path / name for name in TABLES}
        there = {key: folder for key, folder in folders.items() if folder.is_dir() and not folder.is_symlink()}
        for part in OTHERS:
            with occupying(part, "demo", there):
                pass

    def _refused(self, error: OSError) -> DemoFolderError:
        return DemoFolderError(f"--data-dir {self.path}: {error.strerror}; name another folder")

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._held.close()


def _delete(path: Path) -> None:
    """A link is taken away, not what it leads to."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
