"""When each query last made progress: wrote a batch, or rested after one. A resting query does not hang."""

import time
from collections.abc import Callable, Iterable

from streaming.metrics.liveness import Liveness
from streaming.queries.written_batch import WrittenBatch


class LastProgress:
    """Listener for batches and rests; it passes the rests on to the liveness, if there is one."""

    def __init__(
        self, names: Iterable[str], liveness: Liveness | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._liveness, self._monotonic = liveness, monotonic
        self._at = dict.fromkeys(names, monotonic())

    def age(self) -> float:
        """Return the seconds since the slowest query wrote a batch and rested, or was started."""
        return max(0.0, self._monotonic() - min(self._at.values()))

    def on_batch(self, batch: WrittenBatch) -> None:
        self._at[batch.query] = self._monotonic()

    def rests(self, name: str, seconds: float) -> None:
        """Note a rest that begins, with its longest duration."""
        self._at[name] = self._monotonic() + seconds
        if self._liveness is not None:
            self._liveness.rests(name, seconds)

    def rested(self, name: str, batch_id: int, seconds: float) -> None:
        """Note the end and the duration of the rest after this batch."""
        self._at[name] = self._monotonic()
        if self._liveness is not None:
            self._liveness.rested(name, batch_id, seconds)
