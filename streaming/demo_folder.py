"""The folder of a demo: what the demo made in it is the demo's to delete, and nothing else is."""

import fcntl
import shutil
from pathlib import Path
from types import TracebackType
from typing import TextIO

MARK = ".balancewatch-demo"
MADE = ("kafka", "warehouse", "checkpoints", "spark.log")
"""All that a demo makes beside its mark."""

_WORDS = (
    "`balancewatch demo` made this folder and deletes, when it starts here again: " + ", ".join(MADE) + ".\n"
    "Without this file it does not touch the folder.\n"
)


class DemoFolderError(ValueError):
    """The folder is not the demo's to empty. The message says what to do instead."""


class DemoFolder:
    """A folder that is a demo's own: new, empty, or marked by an earlier demo. A context is the demo that uses it."""

    def __init__(self, path: Path) -> None:
        """Touches nothing. Raises DemoFolderError when there is anything that no demo made."""
        self.path = path
        self._lock: TextIO | None = None
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

    def __enter__(self) -> Path:
        """Marked, and without what an earlier demo left. Raises DemoFolderError while another demo uses the folder."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / MARK).open("a")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (self.path / MARK).write_text(_WORDS)
            for name in MADE:
                _delete(self.path / name)
        except OSError as error:
            self.__exit__(None, None, None)
            reason = "another demo runs there" if isinstance(error, BlockingIOError) else error.strerror
            raise DemoFolderError(f"--data-dir {self.path}: {reason}; name another folder") from None
        return self.path

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._lock is not None:
            self._lock.close()


def _delete(path: Path) -> None:
    """A link is taken away, not what it leads to."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
