"""A Delta table opened, or brought to its newest version, while others commit to it.

delta-rs lists the folder of the log, and a listing is no snapshot: of two commits that are made meanwhile it may show
the second alone, and is then refused as a gap. A second listing is complete. A gap that stays is a damaged log.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

GAP = "found gap"
"""What delta-kernel calls it."""

TIMES, PAUSE_SECONDS = 20, 0.05

Result = TypeVar("Result")


def open_delta(path: str) -> DeltaTable:
    """Raises TableNotFoundError, or DeltaError for one that cannot be read."""
    return whole(lambda: DeltaTable(path))


def catch_up(handle: DeltaTable) -> None:
    """Bring it to the table's newest version."""
    whole(handle.update_incremental)


def whole(act: Callable[[], Result]) -> Result:
    """Do what lists a log, again where the listing had a gap."""
    for _ in range(TIMES):
        try:
            return act()
        except DeltaError as error:
            if not is_gap(error):
                raise
            time.sleep(PAUSE_SECONDS)
    return act()


def is_gap(error: DeltaError) -> bool:
    return GAP in str(error)
