"""Ctrl-C and SIGTERM end a command cleanly: the first asks, and every wait in the program looks at the event."""

import signal
import threading
from types import FrameType


def stop_on_signals() -> threading.Event:
    """An event that SIGINT and SIGTERM set. A second signal ends the process at once."""
    stop = threading.Event()

    def handle(number: int, _: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    return stop
