"""A measure in a process of its own: no measure warms or fattens the next."""

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, TypeVar

Result = TypeVar("Result")

END_SECONDS = 120.0
"""For a measure to let go of its servers after a Ctrl-C, which it hears too."""


class MeasureError(RuntimeError):
    """A measure failed; it has printed why."""


@dataclass(frozen=True)
class _Failure:
    reason: str


def run_apart(measure: Callable[..., Result], *sizes: Any) -> Result:
    """What `measure` returns, out of a fresh interpreter and JVM. Raises MeasureError."""
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
    """The outcome is sent and the process gone: libraries that clear up after themselves at the end do so loudly."""
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
    os._exit(0)
