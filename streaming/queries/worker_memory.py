"""Python's garbage collector in a worker that keeps state: it must not walk all of it again and again.

What is kept lives long and is freed by its reference counts. So nothing is collected while a batch runs, what is left
after it is taken out of the collector's coverage, and only now and then all of it is looked through for cycles.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

LOOKED_THROUGH_EVERY = 500
"""Batches."""

_batches = count(1)


@contextmanager
def without_pauses() -> Iterator[None]:
    """While a batch runs."""
    gc.disable()
    try:
        yield
    finally:
        if next(_batches) % LOOKED_THROUGH_EVERY == 0:
            gc.unfreeze()
            gc.collect()
        gc.freeze()
        gc.enable()
