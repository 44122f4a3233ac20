"""Filter on quarantined messages; separate from the reading code, whose import is slow."""

from dataclasses import dataclass
from typing import Any

WAITING, REPAIRED, UNKNOWN, REPLAYED = "WAITING", "REPAIRED", "UNKNOWN", "REPLAYED"
STATES = (WAITING, REPAIRED, UNKNOWN, REPLAYED)
"""State of a message: untouched; repaired; claimed by a replay without confirmation; published again."""

OPEN = (WAITING, REPAIRED, UNKNOWN)
"""States that need a person to repair, replay or find the message."""


@dataclass(frozen=True)
class QuarantineFilter:
    """None means any. `topic` and `reason` are globs, times are epoch ms of Kafka timestamps, `states` are of STATES.

    With `at_ms` messages and states are those of that time.
    """

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    reason: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    states: tuple[str, ...] = ()
    at_ms: int | None = None

    def parameters(self, most: int | None) -> dict[str, Any]:
        return {**self.__dict__, "states": list(self.states), "most": most}
