"""The warehouse as the board follows it: opened when it appears, refreshed now and then for all viewers."""

import threading
import time
from dataclasses import dataclass

from conf.location import Location, is_store
from streaming.store.store import History, WarehouseError

LOOK_SECONDS = 1.0
STORE_LOOK_SECONDS = 5.0
"""Of a bucket, whose every look is a call a table that somebody pays for."""


@dataclass(frozen=True)
class Seen:
    """The tables as of one look: what can be asked, or why nothing can."""

    history: History | None
    trouble: str
    tag: str
    """Another one whenever a table has other rows than before."""


class Tables:
    """One warehouse. `look` may be called by several threads."""

    def __init__(self, warehouse: Location) -> None:
        self.warehouse = warehouse
        self._look_seconds = STORE_LOOK_SECONDS if is_store(warehouse) else LOOK_SECONDS
        self._lock = threading.Lock()
        self._history: History | None = None
        self._looked: float | None = None
        self._openings = 0
        self._seen = Seen(None, "", "")

    def look(self, *, at_once: bool = False) -> Seen:
        """The newest state; within LOOK_SECONDS of the last look, that look's, unless `at_once`."""
        with self._lock:
            now = time.monotonic()
            if at_once or self._looked is None or now - self._looked >= self._look_seconds:
                self._seen = self._look()
                self._looked = time.monotonic()
            return self._seen

    def _look(self) -> Seen:
        try:
            if self._history is not None:
                try:
                    self._history.refresh()
                except WarehouseError:
                    self._history = None  # another warehouse may stand at the same place
            if self._history is None:
                self._history = History(self.warehouse)
                self._openings += 1
        except WarehouseError as error:
            return Seen(None, str(error), f"none-{error}")
        versions = self._history.versions
        return Seen(
            self._history, "", "-".join([str(self._openings), *(f"{k}{v}" for k, v in sorted(versions.items()))])
        )
