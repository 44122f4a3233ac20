"""Ctrl-C and SIGTERM end a command cleanly: the first asks, and every wait in the program looks at the event.

A service manager sends SIGTERM to all processes of a service at once (systemd's KillMode=control-group). Our JVMs take
none: we end them. Python workers and other children die of it, and what fails for that is the end that was asked for.
"""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

SAME_SECONDS = 1.0
"""Signals so soon after the first are the same wish: a supervisor may tell the process and then its group."""

LATE_SECONDS = 0.5
"""So much sooner than we a child may have heard the signal that was for all."""


STOP_SECONDS = 0.5
"""What may yet be done when all is asked to end."""


class StoppedError(Exception):
    """All was asked to end before the work was done."""


def stop_on_signals() -> threading.Event:
    """An event that SIGINT and SIGTERM set. A second signal ends the process at once.

    Ask for it first of all in a command: until then a signal kills.
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
    """Whether something that failed just now did so because all was asked to end."""
    return stop.wait(LATE_SECONDS)


def run_unless_stopped(work: Callable[[], None], stop: threading.Event) -> None:
    """Run `work` in a thread of its own: Kafka's client may wait half a minute, and `stop` shall not.

    Raises StoppedError, or what `work` raises.
    """
    done = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # handed to the thread that waits
            failures.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="unless-stopped", daemon=True).start()
    while not done.wait(0.2):
        if stop.is_set() and not done.wait(STOP_SECONDS):
            raise StoppedError("stopped before the operation finished")
    if failures:
        raise failures[0]


def keep_from_sigterm(jvm: Any) -> None:
    """A JVM, as py4j sees it, that from now on ends only with us: its work in flight is ours to finish or to leave."""
    signals = jvm.sun.misc
    signals.Signal.handle(signals.Signal("TERM"), signals.SignalHandler.SIG_IGN)
