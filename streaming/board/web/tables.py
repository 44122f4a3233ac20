"""The warehouse behind the board: opened once it exists, refreshed at intervals for all viewers."""

import threading
import time
from dataclasses import dataclass

from deltalake.exceptions import DeltaError

from conf.location import Location, is_store
from schemas.tables import TABLES
from streaming.store.store import History, WarehouseError
from streaming.warehouse.tables import open_delta, table_path

LOOK_SECONDS = 1.0
STORE_LOOK_SECONDS = 5.0
"""For buckets, where each refresh is a paid request per table."""


@dataclass(frozen=True)
class Seen:
    """The tables as of one refresh: their history, or why it cannot be opened."""

    history: History | None
    trouble: str
    tag: str
    """Changes whenever a table's rows change."""


class Tables:
    """One warehouse. Several threads may call `look`."""

    def __init__(self, warehouse: Location) -> None:
        self.warehouse = warehouse
        self._look_seconds = STORE_LOOK_SECONDS if is_store(warehouse) else LOOK_SECONDS
        self._lock = threading.Lock()
        self._history: History | None = None
        self._looked: float | None = None
        self._opened: tuple[float, bool] | None = None
        self._openings = 0
        self._seen = Seen(None, "", "")

    def look(self, *, at_once: bool = False) -> Seen:
        """Return the newest state, at most LOOK_SECONDS old unless `at_once`."""
        with self._lock:
            now = time.monotonic()
            if at_once or self._looked is None or now - self._looked >= self._look_seconds:
                self._seen = self._look()
                self._looked = time.monotonic()
            return self._seen

    def can_open(self) -> bool:
        """Return whether any table can be opened anew; within LOOK_SECONDS the previous answer."""
        with self._lock:
            now = time.monotonic()
            if self._opened is None or now - self._opened[0] >= self._look_seconds:
                self._opened = now, any(map(self._opens, TABLES))
            return self._opened[1]

    def _opens(self, name: str) -> bool:
        try:
            open_delta(table_path(self.warehouse, name))
        except (DeltaError, OSError):
            return False
        return True

    def _look(self) -> Seen:
        try:
            if self._history is not None:
                try:
                    self._history.refresh()
                except WarehouseError:
                    self._history = None  # another warehouse may have taken its place
            if self._history is None:
                self._history = History(self.warehouse)
                self._openings += 1
        except WarehouseError as error:
            return Seen(None, str(error), f"none-{error}")
        versions = self._history.versions
        return Seen(
            self._history, "", "-".join([str(self._openings), *(f"{k}{v}" for k, v in sorted(versions.items()))])
        )
