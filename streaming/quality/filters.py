"""Which quarantined messages are asked for; apart, because a command line is quicker without what reads them."""

from dataclasses import dataclass
from typing import Any

WAITING, REPAIRED, UNKNOWN, REPLAYED = "WAITING", "REPAIRED", "UNKNOWN", "REPLAYED"
STATES = (WAITING, REPAIRED, UNKNOWN, REPLAYED)
"""How a message stands: untouched; made good; claimed by a replay that did not say what came of it; in Kafka again."""

OPEN = (WAITING, REPAIRED, UNKNOWN)
"""What is over only when somebody repairs, replays or finds it."""


@dataclass(frozen=True)
class QuarantineFilter:
    """None asks nothing. `topic` and `reason` are globs, times epoch ms of Kafka's, `states` of STATES.

    With `at_ms` things are as they stood then, by what had come and what had been done until then.
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
