"""Which clients gave data at which broker, by a sample: a broker that falls silent while its clients speak elsewhere.

The sample is the clients of the smallest hash (a bottom-k sketch: E. Cohen, "Summarizing data using bottom-k sketches",
PODC 2007). It is the same at every broker and in every shard, so its clients can be compared across brokers.
"""

import zlib
from dataclasses import dataclass, field
from functools import lru_cache

SAMPLE = 16
"""Clients kept a broker."""

FORGET_MS = 600_000
"""A client that gave data nowhere for so long is no witness any more."""

WITNESSES = 2
"""So many clients must miss a broker and speak elsewhere: one alone may be the trouble itself."""


@lru_cache(maxsize=65536)
def rank(client_id: str) -> tuple[int, str]:
    """Where a client stands in every sample."""
    return zlib.crc32(client_id.encode("utf-8", "surrogatepass")), client_id


@dataclass
class HeartbeatSample:
    """`heard_ms`: broker → ClientId → its newest heartbeat there, for the clients of the sample.

    `newest_ms`: ClientId → its newest heartbeat anywhere, for all that are in some sample.
    """

    heard_ms: dict[str, dict[str, int]] = field(default_factory=dict)
    newest_ms: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._last: dict[str, str] = {}  # broker → who ranks last of a full sample; not kept

    def note(self, broker_name: str, client_id: str, time_ms: int) -> None:
        if client_id in self.newest_ms:
            self.newest_ms[client_id] = max(time_ms, self.newest_ms[client_id])
        of_broker = self.heard_ms.setdefault(broker_name, {})
        known_ms = of_broker.get(client_id)
        if known_ms is None and len(of_broker) >= SAMPLE:
            last = self._last.get(broker_name) or max(of_broker, key=rank)
            self._last[broker_name] = last
            if rank(client_id) > rank(last):
                return
            del of_broker[last], self._last[broker_name]
        of_broker[client_id] = max(time_ms, known_ms or 0)
        self.newest_ms.setdefault(client_id, time_ms)

    def leave(self, broker_name: str, client_id: str) -> None:
        """It said that it leaves: its silence tells nothing."""
        self.heard_ms.get(broker_name, {}).pop(client_id, None)
        self._last.pop(broker_name, None)

    def drop(self, broker_name: str) -> None:
        """A topic left the broker, and its clients with it, without a word; who is still there speaks again."""
        self.heard_ms.pop(broker_name, None)
        self._last.pop(broker_name, None)

    def at(self, broker_name: str) -> int | None:
        """The newest heartbeat there."""
        return max(self.heard_ms.get(broker_name, {}).values(), default=None)

    def silent(self, late_ms: int) -> dict[str, int]:
        """Brokers where nobody spoke after `late_ms`, though their clients do elsewhere → the newest heartbeat."""
        found = {}
        for broker_name, of_broker in self.heard_ms.items():
            newest_ms = self.at(broker_name)
            if newest_ms is None or newest_ms > late_ms:
                continue
            if sum(self.newest_ms.get(client_id, 0) > late_ms for client_id in of_broker) >= WITNESSES:
                found[broker_name] = newest_ms
        return found

    def all_silent(self, late_ms: int) -> int | None:
        """The newest heartbeat of all, when there were several clients and none gave data after `late_ms`."""
        newest_ms = max(self.newest_ms.values(), default=0)
        return newest_ms if len(self.newest_ms) >= WITNESSES and newest_ms <= late_ms else None

    def forget(self) -> None:
        """Drop who gave no data for FORGET_MS before the newest heartbeat of all; while nobody speaks, nobody."""
        self._last.clear()
        limit_ms = max(self.newest_ms.values(), default=0) - FORGET_MS
        alive = {client_id for client_id, time_ms in self.newest_ms.items() if time_ms > limit_ms}
        self.heard_ms = {
            broker_name: kept
            for broker_name, of_broker in self.heard_ms.items()
            if (kept := {client_id: time_ms for client_id, time_ms in of_broker.items() if client_id in alive})
        }
        sampled = {client_id for of_broker in self.heard_ms.values() for client_id in of_broker}
        self.newest_ms = {one: time_ms for one, time_ms in self.newest_ms.items() if one in sampled}
