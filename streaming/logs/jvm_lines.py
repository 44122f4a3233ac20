"""Output of the JVM and its Python workers as log lines: they inherit a pipe in place of stderr.

conf/log4j2.properties writes each event as one line of JSON. Other text, such as a crash report or a traceback, is one
event per write; known chatter is dropped.
"""

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from typing import Any, BinaryIO

import structlog

CHUNK_BYTES = 1 << 16
LONGEST_BYTES = 1 << 20
"""Length at which an unfinished line is logged."""

_CHATTER = re.compile(
    r"\s*$|(?:Starting )?Streaming TransformWithState|WARNING: Using incubator modules"
    r"|Setting default log level to|To adjust logging level use|Using Spark's default log4j profile"
)
_LEVELS = {"fatal": "critical", "error": "error", "warn": "warning", "info": "info", "debug": "debug", "trace": "debug"}

log = structlog.get_logger()


class JvmLines:
    """A pipe and the thread that reads it until its last writer ends. Lines after `ending` have level debug."""

    def __init__(self, ending: threading.Event | None = None) -> None:
        self._ending = ending or threading.Event()
        self._read_end, self._write_end = os.pipe()
        threading.Thread(target=self._follow, name="jvm-lines", daemon=True).start()

    def open(self, mode: str) -> BinaryIO:
        """Return the write end, once, for the process to start."""
        file: Any = os.fdopen(self._write_end, mode)
        return file  # type: ignore[no-any-return]  # fdopen's type depends on the mode

    def _follow(self) -> None:
        rest = b""
        while chunk := os.read(self._read_end, CHUNK_BYTES):
            lines, _, rest = (rest + chunk).rpartition(b"\n")
            if len(rest) > LONGEST_BYTES:
                lines, rest = lines + rest, b""
            with suppress(Exception):  # the pipe must be emptied, or the JVM blocks
                say_lines(lines, is_ending=self._ending.is_set())
        with suppress(Exception):
            say_lines(rest, is_ending=self._ending.is_set())  # a dying process may not finish its line
        os.close(self._read_end)


def say_lines(text: bytes, *, is_ending: bool = False) -> None:
    for event in read_events([line.decode("utf-8", "replace") for line in text.splitlines()]):
        level = _LEVELS.get(str(event.pop("level", "")), "warning")
        getattr(log, "debug" if is_ending else level)(event.pop("event"), **event)


def read_events(lines: list[str]) -> Iterator[dict[str, Any]]:
    """Yield log4j's events with their level, and neighbouring other lines as one event."""
    reported = [line for line in lines if not _CHATTER.match(line)]
    for is_plain, group in groupby(reported, lambda line: _event_in(line) is None):
        if is_plain:
            yield {"event": "jvm output", "lines": "\n".join(group)}
        else:
            yield from (event for line in group if (event := _event_in(line)) is not None)


def _event_in(line: str) -> dict[str, Any] | None:
    if not line.startswith('{"'):
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or not {"level", "logger", "event"} <= found.keys():
        return None
    event = {"level": found["level"], "event": found["event"], "logger": found["logger"]}
    return event | ({"java_trace": found["exception"]} if found.get("exception") else {})
