"""The named points at which a life may end, put around the product's own functions for as long as somebody watches.

before_action   the batch is planned, nothing of it has run
after_action    its state is committed, nothing is in Delta
before_commit   the file of a table's rows is written, and no commit names it
between_tables  some of its tables are in Delta
after_tables    all its tables are in Delta, Spark has not written that the batch is done
before_post     the relay is about to call a receiver
after_post      the receiver has it, the relay has not written so
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

from streaming.queries import running
from streaming.relay.receivers.webhook import Webhook
from streaming.warehouse.appender import Appender
from streaming.warehouse.writer import DeltalakeWriter

QUERY_POINTS = ("before_action", "after_action", "before_commit", "between_tables", "after_tables")
RELAY_POINTS = ("before_post", "after_post")
POINTS = (*QUERY_POINTS, *RELAY_POINTS)

Passed = Callable[[str], None]
"""Called with a point, in the thread that passes it; its exception propagates from there."""


class Trap:
    """Springs, once, when its point is passed for the n-th time."""

    def __init__(self, point: str, nth: int) -> None:
        if point not in POINTS:
            raise ValueError(f"point = {point!r} is none of {', '.join(POINTS)}")
        self._point, self._left = point, nth
        self._lock = threading.Lock()

    def springs_at(self, point: str) -> bool:
        if point != self._point:
            return False
        with self._lock:
            self._left -= 1
            return self._left == 0


@contextlib.contextmanager
def watched(passed: Passed) -> Iterator[None]:
    """Call `passed` at every point until this is left."""
    around = functools.partial(_around, passed)
    with contextlib.ExitStack() as stack:
        for owner, name, wrapped in (
            (running.Sink, "_write", around(running.Sink._write, "before_action")),
            (running, "append_rows", around(running.append_rows, "after_action", "after_tables")),
            (DeltalakeWriter, "append", _between_tables(passed, DeltalakeWriter.append)),
            (Appender, "_commit", around(Appender._commit, "before_commit")),
            (Webhook, "send", around(Webhook.send, "before_post", "after_post")),
        ):
            stack.enter_context(patch.object(owner, name, wrapped))
        yield


def _around(passed: Passed, function: Callable[..., Any], before: str, after: str | None = None) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        passed(before)
        result = function(*args, **kwargs)
        if after is not None:
            passed(after)
        return result

    return wrapped


def _between_tables(passed: Passed, append: Callable[..., int | None]) -> Callable[..., int | None]:
    """Before each append of a batch but its first."""
    newest: dict[str, int] = {}

    @functools.wraps(append)
    def wrapped(self: DeltalakeWriter, table: Any, rows: Any, app_id: str, batch_id: int) -> int | None:
        if newest.get(app_id) == batch_id:
            passed("between_tables")
        newest[app_id] = batch_id
        return append(self, table, rows, app_id, batch_id)

    return wrapped
