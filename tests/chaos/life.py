"""What a life can be asked, whether it is a process or the query in a session that outlives it."""

from pathlib import Path
from typing import Protocol

from conf.settings import Settings

LIFE_SECONDS = 300.0
"""No life takes longer, or something hangs."""


class Life(Protocol):
    """One life of a run. Only one of a run lives at a time."""

    start_seconds: float
    """A life killed within so many seconds may still have been starting."""

    def is_alive(self) -> bool: ...

    def has_written(self) -> bool:
        """Whether a batch was committed in this life."""

    def wait(self, seconds: float = LIFE_SECONDS) -> int:
        """0 when its work is done, 1 when it ended with a sentence, -SIGKILL when it was killed; it is over then."""

    def kill(self) -> None:
        """End it now, whatever it does."""

    def errors(self) -> list[str]:
        """The sentences it ended with."""

    def printed(self) -> str:
        """All it said, for a report."""


def newest_commit(settings: Settings) -> int:
    """The newest batch that either query has finished; -1 for none."""
    commits = Path(settings.paths.checkpoints).glob("*/commits/*")
    return max((int(path.name) for path in commits if path.name.isdigit()), default=-1)
