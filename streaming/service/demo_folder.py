"""The folder of a demo. A demo deletes only what an earlier demo created in it."""

import contextlib
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

from streaming.warehouse.occupancy import Part, occupying

MARK = ".balancewatch-demo"
MADE = ("kafka", "warehouse", "checkpoints", "spark.log")
"""Names that a demo creates, besides its mark and its lock."""

TABLES = ("warehouse", "checkpoints")

OTHERS: tuple[Part, ...] = ("run", "relay")

_OPENING = "`balancewatch demo` made this folder"
_WORDS = (
    f"{_OPENING}. The next demo in it deletes {', '.join(MADE)}.\n"
    "Without this file, a demo does not touch the folder.\n"
)


class DemoFolderError(ValueError):
    """The demo may not empty the folder. The message says what to do instead."""


class DemoFolder:
    """A demo's folder: new, empty, or marked by an earlier demo. As a context manager it holds it exclusively."""

    def __init__(self, path: Path) -> None:
        """Change nothing. Raises DemoFolderError for a non-empty folder without a demo's mark."""
        self.path = path
        self._held = contextlib.ExitStack()
        try:
            names = {one.name for one in path.iterdir()} if path.exists() or path.is_symlink() else set()
        except OSError as error:
            raise DemoFolderError(f"--data-dir {path}: {error.strerror}; choose another folder") from None
        if names and not self._is_marked():
            raise DemoFolderError(
                f"--data-dir {path} is not empty and has no {MARK}: it may hold files that no demo created; "
                "choose another folder, or delete it yourself"
            )

    def _is_marked(self) -> bool:
        mark = self.path / MARK
        try:
            return mark.is_file() and not mark.is_symlink() and mark.read_text().startswith(_OPENING)
        except (OSError, UnicodeDecodeError):
            return False

    def __enter__(self) -> Self:
        """Mark the folder and hold it against other demos, `run` and relays.

        Raises OccupiedError, or DemoFolderError if the folder cannot be created.
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
        """Delete the files of an earlier demo. Raises DemoFolderError, or OccupiedError if the folder is in use."""
        self._refuse_others()
        try:
            for name in MADE:
                _delete(self.path / name)
        except OSError as error:
            raise self._refused(error) from None

    def _refuse_others(self) -> None:
        """Raise OccupiedError if a `run` or relay uses the tables of an earlier demo."""
        folders = {f"--data-dir, {name}": self.path / name for name in TABLES}
        there = {key: folder for key, folder in folders.items() if folder.is_dir() and not folder.is_symlink()}
        for part in OTHERS:
            with occupying(part, "demo", there):
                pass

    def _refused(self, error: OSError) -> DemoFolderError:
        return DemoFolderError(f"--data-dir {self.path}: {error.strerror}; choose another folder")

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._held.close()


def _delete(path: Path) -> None:
    """Delete a file or folder; of a link, only the link."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
