"""Keep-alive messages to systemd's watchdog (WatchdogSec=), for as long as the process is healthy.

Source: sd_notify(3), sd_watchdog_enabled(3).
"""

import os
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress


class SystemdWatchdog:
    """A thread that reports to systemd twice per watchdog interval; without a watchdog it does nothing.

    Use as a context manager.
    """

    def __init__(self, reasons_not_alive: Callable[[], Iterable[str]]) -> None:
        """Report while `reasons_not_alive` yields nothing."""
        self._reasons = reasons_not_alive
        self._address = os.environ.get("NOTIFY_SOCKET", "")
        self._seconds = int(os.environ.get("WATCHDOG_USEC", "0")) / 2_000_000
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="systemd-watchdog", daemon=True)

    def __enter__(self) -> "SystemdWatchdog":
        if self._address and self._seconds > 0:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2)

    def _work(self) -> None:
        while not self._stop.is_set():
            if not list(self._reasons()):
                with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
                    connection.sendto(b"WATCHDOG=1", self._address.replace("@", "\0", 1))
            self._stop.wait(self._seconds)
