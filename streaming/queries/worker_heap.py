"""A Python worker's modules kept out of its garbage collections.

Spark's daemon collects all garbage after each task. With pyspark, pandas and our modules loaded a collection looks at
hundreds of thousands of objects that live as long as the worker: tens of milliseconds, most of what a small task costs.
"""

import gc
from functools import cache

from pyspark import TaskContext


def freeze_modules() -> None:
    """Called in a task: what the worker has loaded by its first is not looked at again. Elsewhere nothing is done."""
    if TaskContext.get() is not None:
        _freeze_once()


@cache
def _freeze_once() -> None:
    gc.freeze()
