"""A listener to batches that calls a function."""

from collections.abc import Callable
from dataclasses import dataclass

from streaming.queries.written_batch import WrittenBatch


@dataclass(frozen=True)
class Calling:
    """A BatchListener."""

    on_batch: Callable[[WrittenBatch], None]
