"""The states of shards that a worker keeps from one batch to the next, each for as long as its stamp is the newest."""

from collections.abc import Iterator
from contextlib import contextmanager

from streaming.queries.shard_state import ShardState
from streaming.queries.shard_store import ShardStore


class StateCache:
    """One a worker process. Which worker works for a shard is Spark's choice, batch by batch."""

    def __init__(self) -> None:
        self._states: dict[int, ShardState] = {}

    @contextmanager
    def state_of(self, number: int, store: ShardStore) -> Iterator[ShardState]:
        """The shard's state. What fails within leaves nothing behind: the store knows what was before."""
        stamp, known = store.read_stamp(), self._states.pop(number, None)
        if known is None or stamp is None or known.stamp != stamp:
            known = ShardState(store)
        yield known.over(store)
        self._states[number] = known
