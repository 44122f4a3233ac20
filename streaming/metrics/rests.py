"""Rests after batches, which Spark counts as a part of them: no work, so no part of any figure here."""

from collections import deque
from typing import Any

KEPT = 100
"""Rests of a query whose batches Spark has not told of yet."""

RESTED_IN = ("addBatch", "triggerExecution")
"""The phases that a rest is in."""


class Rests:
    """Told of a rest before Spark tells of its batch."""

    def __init__(self) -> None:
        self._rests: dict[str, deque[tuple[int, float]]] = {}

    def note(self, name: str, batch_id: int, seconds: float) -> None:
        self._rests.setdefault(name, deque(maxlen=KEPT)).append((batch_id, seconds))

    def take(self, name: str, batch_id: int) -> float:
        """Seconds of the rest after this batch, 0 where there was none; those of earlier ones are forgotten."""
        rests, rested = self._rests.get(name), 0.0
        while rests and rests[0][0] <= batch_id:
            known, seconds = rests.popleft()
            rested = seconds if known == batch_id else rested
        return rested


def without_rest(progress: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The batch as it was until it rested, for so long."""
    durations = progress["durationMs"]
    worked = {
        phase: max(0, ms - round(seconds * 1000)) if phase in RESTED_IN else ms for phase, ms in durations.items()
    }
    whole_ms, worked_ms = durations.get("triggerExecution", 0), worked.get("triggerExecution", 0)
    faster = whole_ms / worked_ms if worked_ms else 1.0
    return progress | {
        "durationMs": worked,
        "processedRowsPerSecond": progress.get("processedRowsPerSecond", 0.0) * faster,
    }
