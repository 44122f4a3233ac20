"""Graceful stop on SIGINT and SIGTERM: the first signal sets an event that every wait checks.

A service manager sends SIGTERM to all processes of a service at once (systemd's KillMode=control-group). JVMs ignore it
and are ended by their parent. Python workers and other children die of it; the errors that follow are expected.
"""

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from types import FrameType
from typing import Any

SAME_SECONDS = 1.0
"""Signals within this time are one: a supervisor may signal the process and then its group."""

LATE_SECONDS = 0.5
"""Time by which a child may receive the common signal before this process."""

STOP_SECONDS = 0.5
"""Time that running work has to finish after a stop."""


class StoppedError(Exception):
    """The command was stopped before the work was done."""


def stop_on_signals() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set. A second signal ends the process at once.

    Call it first in a command: until then a signal kills.
    """
    stop = threading.Event()
    asked_at: float | None = None

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal asked_at
        if asked_at is None:
            asked_at = time.monotonic()
            stop.set()
        elif time.monotonic() - asked_at > SAME_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    return stop


def is_end_asked(stop: threading.Event) -> bool:
    """Return whether an error just now is a consequence of a stop."""
    return stop.wait(LATE_SECONDS)


def run_unless_stopped(work: Callable[[], None], stop: threading.Event) -> None:
    """Run `work` in a thread, because Kafka's client may wait half a minute and `stop` must not.

    Raises StoppedError, or the error of `work`.
    """
    done: Future[None] = Future()

    def run() -> None:
        try:
            work()
            done.set_result(None)
        except BaseException as error:  # passed to the waiting thread
            done.set_exception(error)

    threading.Thread(target=run, name="unless-stopped", daemon=True).start()
    while not wait([done], 0.2).done:
        if stop.is_set() and not wait([done], STOP_SECONDS).done:
            raise StoppedError("stopped before the operation finished")
    done.result()


def keep_from_sigterm(jvm: Any) -> None:
    """Make a JVM ignore SIGTERM: its parent decides when it ends."""
    signals = jvm.sun.misc
    signals.Signal.handle(signals.Signal("TERM"), signals.SignalHandler.SIG_IGN)
