"""How a laboratory ends on Ctrl-C and SIGTERM: what was started is ended, and what was played up to then is judged."""

import signal
import threading
from collections.abc import Callable
from types import FrameType


def stop_on_signals(say: Callable[[str], None]) -> threading.Event:
    """Return an event that SIGINT and SIGTERM set, however often they come."""
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        say("ending")
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return stop
