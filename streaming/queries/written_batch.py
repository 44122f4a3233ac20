"""A batch that is in Delta, and who is told of it: each row is handed on once, to every listener."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from streaming.warehouse.rows import Rows


@dataclass(frozen=True)
class WrittenBatch:
    """One batch of a query.

    rows      all of them, by table; also those that are of no table
    versions  the version of each table that took its rows; a table that had them from before a crash has none, nor
              has one whose writer does not say
    """

    query: str
    batch_id: int
    rows: Rows
    versions: Mapping[str, int] = field(default_factory=dict)


class BatchListener(Protocol):
    """Told of each batch of a query, in the query's own thread: be quick. What is raised fails the batch, which runs
    again; a listener without which the batch is whole keeps its failures to itself.
    """

    def on_batch(self, batch: WrittenBatch) -> None: ...
