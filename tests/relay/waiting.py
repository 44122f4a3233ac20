"""Waiting for what another thread brings about."""

import time
from collections.abc import Callable


def until(is_so: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to be within its time limit"
        time.sleep(0.02)
