"""A measure in its own process: no measure warms or fattens the next."""

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from typing import Any, TypeVar

Result = TypeVar("Result")

END_SECONDS = 120.0
"""For a measure to stop its servers after a Ctrl-C, which reaches it too."""


class MeasureError(RuntimeError):
    """A measure failed; it has printed why."""


@dataclass(frozen=True)
class _Failure:
    reason: str


def run_apart(measure: Callable[..., Result], *sizes: Any) -> Result:
    """Return what `measure` returns, from a fresh interpreter and JVM. Raises MeasureError."""
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(sending, measure, sizes))
    process.start()
    sending.close()
    try:
        outcome = receiving.recv()
    except EOFError:
        process.join()
        outcome = _Failure(f"its process ended with code {process.exitcode}")
    except KeyboardInterrupt:
        process.join(END_SECONDS)
        raise
    process.join()
    if isinstance(outcome, _Failure):
        raise MeasureError(outcome.reason)
    result: Result = outcome
    return result


def _run(sending: Connection, measure: Callable[..., Any], sizes: tuple[Any, ...]) -> None:
    """Send the outcome, and end the process without the interpreter's last acts, in which libraries are loud.

    Great Expectations imports Spark's remote client, which ends a thread whose process has no file as its `__main__`:
    it takes it for a doctest, and what validates samples would be missing from the measure.
    """
    main = sys.modules["__main__"]
    if main.__spec__ is None and not hasattr(main, "__file__"):
        main.__file__ = __file__
    try:
        outcome = measure(*sizes)
    except KeyboardInterrupt:
        outcome = _Failure("ended by Ctrl-C")
    except BaseException as error:  # Spark's exceptions hold a lock and cannot leave their process; their text can
        traceback.print_exc()
        outcome = _Failure(str(error))
    sending.send(outcome)
    sys.stdout.flush()
    sys.stderr.flush()
    Finalize(None, os._exit, args=(0,), exitpriority=-100)  # after multiprocessing's own
