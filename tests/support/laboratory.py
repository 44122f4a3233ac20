"""What the commands of laboratories share: progress with the time, and their end on Ctrl-C and SIGTERM."""

import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType


def say(text: str) -> None:
    """Progress, on stderr."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def stop_on_signals(say: Callable[[str], None]) -> threading.Event:
    """Return an event that SIGINT and SIGTERM set, however often they come."""
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        say("ending")
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return stop
