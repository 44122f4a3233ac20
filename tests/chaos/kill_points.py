"""The named points at which a victim kills itself, put around the product's own functions in the child process only.

before_action   the batch is planned, nothing of it has run
after_action    its state is committed, nothing is in Delta
between_tables  some of its tables are in Delta
after_tables    all its tables are in Delta, Spark has not written that the batch is done
before_post     the relay is about to tell a receiver
after_post      the receiver has it, the relay has not written so
"""

import functools
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from streaming.queries import running
from streaming.queries.warehouse import DeltalakeWriter

QUERY_POINTS = ("before_action", "after_action", "between_tables", "after_tables")
RELAY_POINTS = ("before_post", "after_post")
POINTS = (*QUERY_POINTS, *RELAY_POINTS)


class Trap:
    """Ends the whole process group, JVM and all, when its point is passed for the n-th time."""

    def __init__(self, point: str, nth: int) -> None:
        if point not in POINTS:
            raise ValueError(f"point = {point!r} is none of {', '.join(POINTS)}")
        self.point = point
        self._left = nth
        self._lock = threading.Lock()

    def passed(self, point: str) -> None:
        if point != self.point:
            return
        with self._lock:
            self._left -= 1
            if self._left == 0:
                os.killpg(os.getpgid(0), signal.SIGKILL)


def set_trap(trap: Trap) -> None:
    """Wrap the functions of the product."""
    running.Sink._write = _around(running.Sink._write, lambda: trap.passed("before_action"))
    running.append_rows = _around(
        running.append_rows,
        lambda: trap.passed("after_action"),
        lambda: trap.passed("after_tables"),
    )
    _watch_tables(trap)
    if trap.point in RELAY_POINTS:
        _watch_posts(trap)


def _around(
    function: Callable[..., Any], before: Callable[[], None], after: Callable[[], None] = lambda: None
) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        before()
        result = function(*args, **kwargs)
        after()
        return result

    return wrapped


def _watch_tables(trap: Trap) -> None:
    """Before each append of a batch but its first."""
    append = DeltalakeWriter.append
    newest: dict[str, int] = {}

    @functools.wraps(append)
    def wrapped(self: DeltalakeWriter, table: Any, rows: Any, app_id: str, batch_id: int) -> None:
        if newest.get(app_id) == batch_id:
            trap.passed("between_tables")
        newest[app_id] = batch_id
        append(self, table, rows, app_id, batch_id)

    DeltalakeWriter.append = wrapped


def _watch_posts(trap: Trap) -> None:
    """Around each call of the webhook receiver."""
    from streaming.oncall.webhook import Webhook  # noqa: PLC0415  # only where the relay runs

    Webhook.send = _around(Webhook.send, lambda: trap.passed("before_post"), lambda: trap.passed("after_post"))
