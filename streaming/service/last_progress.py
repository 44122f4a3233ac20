"""When each query was last seen to get on: to write a batch, or to rest after one. What rests does not hang."""

import time
from collections.abc import Callable, Iterable

from streaming.metrics.liveness import Liveness
from streaming.queries.written_batch import WrittenBatch


class LastProgress:
    """Told of batches and of rests; the liveness, where there is one, hears of the rests too."""

    def __init__(
        self, names: Iterable[str], liveness: Liveness | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._liveness, self._monotonic = liveness, monotonic
        self._at = dict.fromkeys(names, monotonic())

    def age(self) -> float:
        """Seconds since the query that is furthest behind wrote a batch and rested, or was started."""
        return max(0.0, self._monotonic() - min(self._at.values()))

    def on_batch(self, batch: WrittenBatch) -> None:
        self._at[batch.query] = self._monotonic()

    def rests(self, name: str, seconds: float) -> None:
        """From now on, for so long at the most."""
        self._at[name] = self._monotonic() + seconds
        if self._liveness is not None:
            self._liveness.rests(name, seconds)

    def rested(self, name: str, batch_id: int, seconds: float) -> None:
        """The rest after this batch is over, which took so long."""
        self._at[name] = self._monotonic()
        if self._liveness is not None:
            self._liveness.rested(name, batch_id, seconds)
