"""A batch that is in Delta, and the listeners that get each of its rows once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from streaming.warehouse.rows import Rows


@dataclass(frozen=True)
class WrittenBatch:
    """One batch of a query.

    rows      all rows by table, also rows that belong to no table
    versions  the version of each table that took its rows; a table that had them from before a crash has none, nor
              has a table whose writer reports none
    """

    query: str
    batch_id: int
    rows: Rows
    versions: Mapping[str, int] = field(default_factory=dict)


class BatchListener(Protocol):
    """Listener for the batches of a query, in the query's own thread: be quick.

    An error fails the batch, which runs again. A listener that the batch does not need keeps its errors to itself.
    """

    def on_batch(self, batch: WrittenBatch) -> None: ...
