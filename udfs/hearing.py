"""Which brokers we hear: what an unheard broker's clients and queues do is not known, and so not wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Hearing:
    """`answered` brokers were really asked and did answer, `unheard` ones did not; `since_ms` is when a broker that was
    missed is heard again, `pulled_ms` since when a broker tells every pull it gets. `silent` brokers are out of their
    clients' reach. `gap_ms` is how long nothing was heard at all before this tick. `explained` is broker → the open
    incident that explains what is wrong under it, `cluster_id` the one that explains everything; `masterless` is broker
    → the open incident of its missing master, which explains what needs a master.
    """

    unheard: frozenset[str] = frozenset()
    since_ms: Mapping[str, int] = field(default_factory=dict)
    answered: frozenset[str] = frozenset()
    pulled_ms: Mapping[str, int] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()
    gap_ms: int = 0
    explained: Mapping[str, str] = field(default_factory=dict)
    cluster_id: str | None = None
    masterless: Mapping[str, str] = field(default_factory=dict)

    def tells_pulls(self, broker_name: str, by_ms: int) -> bool:
        """Whether a pull at the broker at `by_ms` would have been told."""
        return self.pulled_ms.get(broker_name, by_ms + 1) <= by_ms

    def heard_since_ms(self, broker_name: str) -> int | None:
        """Since when the broker is heard without a gap; 0 for always, None for not now."""
        return None if broker_name in self.unheard else self.since_ms.get(broker_name, 0)

    def explains(self, brokers: set[str], *, needs_master: bool) -> str | None:
        """The open incident that explains trouble at these brokers, all of them; of none, only the cluster's does."""
        if self.cluster_id is not None:
            return self.cluster_id
        explained = {**self.masterless, **self.explained} if needs_master else self.explained
        if not brokers or not brokers <= explained.keys():
            return None
        return explained[min(brokers)]

    def explains_anything(self) -> bool:
        return bool(self.cluster_id or self.explained or self.masterless)
