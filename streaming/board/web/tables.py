"""The warehouse behind the board: opened once it exists, refreshed at intervals for all viewers."""

import threading
import time
from functools import cached_property
from typing import Any

from deltalake.exceptions import DeltaError

from conf.location import Location, is_store
from schemas.tables import TABLES
from streaming.store.freshness import read_newest_ms
from streaming.store.store import History
from streaming.text.visible_text import visible_name
from streaming.warehouse.tables import open_delta, table_path
from streaming.warehouse.warehouse_error import NotWrittenError, WarehouseError
from udfs.alerts.phrase import Words

LOOK_SECONDS = 1.0
STORE_LOOK_SECONDS = 5.0
"""For buckets, where each refresh is a paid request per table."""


class Seen:
    """The tables as of one refresh: their history, or why it cannot be opened. `tag` changes with the tables' rows."""

    def __init__(self, history: History | None, trouble: Words, tag: str) -> None:
        self.history, self.trouble, self.tag = history, trouble, tag

    @cached_property
    def newest_ms(self) -> int | None:
        """Time of the newest row. Raises WarehouseError."""
        return None if self.history is None else read_newest_ms(self.history)

    @cached_property
    def firing(self) -> dict[str, Any] | None:
        """The count of firing incidents that are not inhibited and the newest of them, id to a few words, which screen
        readers announce. `left_out` counts unreadable rows by table."""
        if self.history is None:
            return None
        try:
            rows = self.history.rows(_FIRING, [MOST_ANNOUNCED])
        except WarehouseError:
            return None
        newest = {row["incident_id"]: visible_name(f"{row['kind']}, {row['subject']}") for row in rows}
        firing: dict[str, Any] = {"count": rows[0]["firing"] if rows else 0, "newest": newest}
        return firing | ({"left_out": dict(self.history.left_out)} if self.history.left_out else {})


MOST_ANNOUNCED = 200
_FIRING = """
SELECT incident_id, kind, coalesce(consumer_group, broker_name, cluster) AS subject, count(*) OVER () AS firing
FROM firing ORDER BY fired_at DESC, incident_id LIMIT ?
"""


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
            trouble = error.sentence if isinstance(error, NotWrittenError) else str(error)
            return Seen(None, trouble, f"none-{error}")
        versions = sorted(self._history.versions.items())
        tag = "-".join([str(self._openings), *(f"{name}{version}" for name, version in versions)])
        return self._seen if self._seen.tag == tag else Seen(self._history, "", tag)
