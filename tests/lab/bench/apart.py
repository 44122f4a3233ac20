"""A measure in a separate process: no measure warms or fattens the next."""

import os
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from multiprocessing.util import Finalize
from typing import Any, TypeVar

Result = TypeVar("Result")


class MeasureError(RuntimeError):
    """A measure failed; it has printed why."""


def run_apart(measure: Callable[..., Result], *sizes: Any) -> Result:
    """Return what `measure` returns, from a fresh interpreter and JVM. Raises MeasureError."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            result: Result = pool.submit(_run, measure, sizes).result()
            return result
        except BrokenProcessPool:
            raise MeasureError("its process ended by itself") from None


def _run(measure: Callable[..., Any], sizes: tuple[Any, ...]) -> Any:
    """Return the result, and end the process later without the interpreter's last acts, in which libraries are loud.

    Great Expectations imports Spark's remote client, which ends a thread whose process has no file as its `__main__`:
    it takes it for a doctest, and what validates samples would be missing from the measure.
    """
    main = sys.modules["__main__"]
    if main.__spec__ is None and not hasattr(main, "__file__"):
        main.__file__ = __file__
    Finalize(None, os._exit, args=(0,), exitpriority=-100)  # after multiprocessing's own
    try:
        return measure(*sizes)
    except KeyboardInterrupt:
        raise MeasureError("ended by Ctrl-C") from None
    except BaseException as error:  # Spark's exceptions hold a lock and cannot leave their process; their text can
        traceback.print_exc()
        raise MeasureError(str(error)) from None
