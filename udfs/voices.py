"""Which clients were heard at which broker, by a sample: a broker that falls silent while its clients speak elsewhere.

The sample is the clients of the smallest hash (a bottom-k sketch: E. Cohen, "Summarizing data using bottom-k sketches",
PODC 2007). It is the same at every broker and in every shard, so its clients can be compared across brokers.
"""

import zlib
from dataclasses import dataclass, field
from functools import lru_cache

SAMPLE = 16
"""Clients kept a broker."""

FORGET_MS = 600_000
"""A client that was heard nowhere for so long is no witness any more."""

WITNESSES = 2
"""So many clients must miss a broker and speak elsewhere: one alone may be the trouble itself."""


@lru_cache(maxsize=65536)
def rank(client_id: str) -> tuple[int, str]:
    """Where a client stands in every sample."""
    return zlib.crc32(client_id.encode("utf-8", "surrogatepass")), client_id


@dataclass
class Voices:
    """`heard_ms`: broker → ClientId → its newest heartbeat there, for the clients of the sample."""

    heard_ms: dict[str, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._last: dict[str, str] = {}  # broker → who ranks last of a full sample; not kept

    def note(self, broker_name: str, client_id: str, time_ms: int) -> None:
        of_broker = self.heard_ms.setdefault(broker_name, {})
        known_ms = of_broker.get(client_id)
        if known_ms is None and len(of_broker) >= SAMPLE:
            last = self._last.get(broker_name) or max(of_broker, key=rank)
            self._last[broker_name] = last
            if rank(client_id) > rank(last):
                return
            del of_broker[last], self._last[broker_name]
        of_broker[client_id] = max(time_ms, known_ms or 0)

    def leave(self, broker_name: str, client_id: str) -> None:
        """It said that it leaves: its silence tells nothing."""
        self.heard_ms.get(broker_name, {}).pop(client_id, None)
        self._last.pop(broker_name, None)

    def silent(self, late_ms: int) -> dict[str, int]:
        """Brokers where nobody spoke after `late_ms`, though their clients do elsewhere → the newest heartbeat."""
        found = {}
        for broker_name, of_broker in self.heard_ms.items():
            newest_ms = max(of_broker.values(), default=None)
            if newest_ms is not None and newest_ms <= late_ms and self._witnesses(broker_name, late_ms) >= WITNESSES:
                found[broker_name] = newest_ms
        return found

    def all_silent(self, late_ms: int) -> int | None:
        """The newest heartbeat of all, when there were several clients and none was heard after `late_ms`."""
        newest: dict[str, int] = {}
        for of_broker in self.heard_ms.values():
            for client_id, time_ms in of_broker.items():
                newest[client_id] = max(time_ms, newest.get(client_id, 0))
        is_silent = len(newest) >= WITNESSES and max(newest.values()) <= late_ms
        return max(newest.values()) if is_silent else None

    def forget(self, now_ms: int) -> None:
        self._last.clear()
        alive = {
            client_id
            for of_broker in self.heard_ms.values()
            for client_id, time_ms in of_broker.items()
            if time_ms + FORGET_MS > now_ms
        }
        self.heard_ms = {
            broker_name: kept
            for broker_name, of_broker in self.heard_ms.items()
            if (kept := {client_id: time_ms for client_id, time_ms in of_broker.items() if client_id in alive})
        }

    def _witnesses(self, broker_name: str, late_ms: int) -> int:
        """How many of the broker's clients were heard at another broker after `late_ms`."""
        others = [of_other for name, of_other in self.heard_ms.items() if name != broker_name]
        return sum(
            any(of_other.get(client_id, late_ms) > late_ms for of_other in others)
            for client_id in self.heard_ms[broker_name]
        )
