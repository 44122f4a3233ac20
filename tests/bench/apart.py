"""A measure in a process of its own: no measure warms or fattens the next."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from pyspark.errors import PySparkException

Result = TypeVar("Result")


def run_apart(measure: Callable[..., Result], *sizes: Any) -> Result:
    """What `measure` returns, out of a fresh interpreter and JVM. Raises what it raises."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_run, measure, *sizes).result()


def _run(measure: Callable[..., Result], *sizes: Any) -> Result:
    """Spark's exceptions hold a lock and cannot leave their process; their text can."""
    try:
        return measure(*sizes)
    except PySparkException as error:
        raise RuntimeError(str(error)) from None
