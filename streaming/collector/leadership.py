"""Who of several collectors of one cluster speaks: the log of their claims decides, and all read the same log.

Kafka appends claims in one order and gives each its own time (LogAppendTime), so that every reader comes to the same
holder at every offset, whatever the collectors' clocks say.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

MOST_RIVALS = 100
"""So many other claimants are remembered; one is enough to know that somebody waits."""


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """A collector would like to lead, or to go on leading, for `ttl_ms`; or does not any more.

    `holder` is the process, `collector` the name its clock events carry.
    """

    holder: str
    collector: str
    ttl_ms: int
    is_released: bool = False


@dataclass(frozen=True)
class Leadership:
    """Who leads until when, by the log's time. `term` is the offset of the claim by which its holder
    came; `asked_ms` is each other's newest claim.
    """

    holder: str = ""
    collector: str = ""
    until_ms: int = 0
    term: int = -1
    asked_ms: dict[str, int] = field(default_factory=dict)

    def after(self, claim: Claim, at_ms: int, offset: int) -> "Leadership":
        """The lease after the log's next claim. A claim counts when its process holds the lease already, or nobody
        does any more.
        """
        is_own, is_free = claim.holder == self.holder, at_ms >= self.until_ms
        if claim.is_released:
            waiting = {holder: at for holder, at in self.asked_ms.items() if holder != claim.holder}
            return replace(self, until_ms=0, asked_ms=waiting) if is_own else replace(self, asked_ms=waiting)
        if not is_own and not is_free:
            newest = sorted({**self.asked_ms, claim.holder: at_ms}.items(), key=lambda each: -each[1])
            return replace(self, asked_ms=dict(newest[:MOST_RIVALS]))
        return Leadership(
            claim.holder,
            claim.collector,
            at_ms + claim.ttl_ms,
            self.term if is_own else offset,
            {holder: at for holder, at in self.asked_ms.items() if holder != claim.holder},
        )

    def is_wanted_by_others(self, at_ms: int, ttl_ms: int) -> bool:
        """Whether another has claimed it lately."""
        return any(at_ms - asked_ms < ttl_ms for asked_ms in self.asked_ms.values())


def parse_claim(value: Any) -> Claim | None:
    """None for what is no claim."""
    try:
        return msgspec.json.decode(value or b"", type=Claim)
    except (msgspec.DecodeError, RecursionError, TypeError):
        return None
