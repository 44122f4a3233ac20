"""Keep-alive messages to systemd's watchdog (WatchdogSec=), for as long as the process is healthy.

Source: sd_notify(3), sd_watchdog_enabled(3).
"""

import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def systemd_watchdog(reasons_not_alive: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Report to systemd twice per watchdog interval, while there is no reason; without a watchdog do nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "").replace("@", "\0", 1)
    seconds = int(os.environ.get("WATCHDOG_USEC", "0")) / 2_000_000
    stop = threading.Event()

    def report() -> None:
        while not stop.is_set():
            if not list(reasons_not_alive()):
                with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
                    connection.sendto(b"WATCHDOG=1", address)
            stop.wait(seconds)

    thread = threading.Thread(target=report, name="systemd-watchdog", daemon=True)
    if address and seconds > 0:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if thread.is_alive():
            thread.join(timeout=2)
