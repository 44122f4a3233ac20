"""A batch that is in Delta, and the listeners that get each of its rows once."""

from dataclasses import dataclass
from typing import Protocol

from streaming.warehouse.rows import Rows


@dataclass(frozen=True)
class WrittenBatch:
    """One batch of a query: all rows by table, also rows that belong to no table."""

    query: str
    batch_id: int
    rows: Rows


class BatchListener(Protocol):
    """Listener for the batches of a query, in the query's own thread: be quick.

    An error fails the batch, which runs again. A listener that the batch does not need keeps its errors to itself.
    """

    def on_batch(self, batch: WrittenBatch) -> None: ...
