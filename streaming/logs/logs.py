"""Logs by structlog on stderr: for people on a terminal, JSON elsewhere. Secrets are masked, long values cut.

Every JSON line has `timestamp` (ISO 8601, UTC), `level` and `event`; lines of libraries also have `logger`. `exception`
has an exception's frames without the values of variables.
"""

import logging
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from types import TracebackType
from typing import Any

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, Processor, WrappedLogger

from conf.settings import Log
from streaming.text.output import warn
from streaming.text.visible_text import visible, visible_json

MASK = "***"

LONGEST = 4_000
"""Most characters of a text. A page's summary and advice have up to 2,000 each."""

MOST = 100
"""Most elements of a list, or keys of an object."""

DEEPEST = 12
"""Most levels of lists and objects. An exception's frames are four levels down."""

_SECRET_KEY = re.compile(
    r"token|passw|secret|authorization|credential|api_?key|access_?key|routing_?key|jaas|cookie", re.IGNORECASE
)
_OPEN_KEY = re.compile(r"_env$", re.IGNORECASE)
"""Keys with the name of a variable, not its value."""

_IN_TEXT = (
    (re.compile(r"(?<=://)[^/\s\"'<>]+(?=@)"), MASK),  # http://user:password@host, to the last @ of the authority
    (
        re.compile(
            r"(?i)(authorization(?:\\*[\"']?\s*[=:]|\\*[\"']\s*,)\s*)"
            r"(b?\\*\"[^\"]*\"|b?\\*'[^']*'|[^\r\n,;}\"']+)"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(?i)([?&](?:[\w.-]*(?:key|token|secret|passw\w*)|sign|signature)=)[^&\s#\"'<>]+"), rf"\1{MASK}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/_.~=-]{8,}"), rf"\1 {MASK}"),
    (
        re.compile(
            r"(?i)([\w.-]*(?:token|passw(?:or)?d|secret|api_?key|access_?key|routing_?key|[?&]sign)(?!\w*_env\b)[\w.-]*"
            r"[\"']?\s*[=:]\s*)(b?\"[^\"]*\"|b?'[^']*'|[^\s&,;}\"']+)"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(?<=/open-apis/bot/v2/hook/)[\w-]+"), MASK),  # Feishu: the address is the key
    (  # likewise
        re.compile(
            r"(?i)(hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/"
            r"|webhook\.office\.com/webhookb2/)[^\s?\"'<>]+"
        ),
        rf"\1{MASK}",
    ),
)
_HINT = re.compile(r"(?i)token|passw|secret|key|sign|bearer|basic|authorization|@|hook")


def guard(value: Any, key: str = "", depth: int = 0) -> Any:
    """Return the value without secrets, masked entirely by its key or by patterns in its text, and cut with a mark."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if _SECRET_KEY.search(key) and not _OPEN_KEY.search(key):
        return MASK
    if depth > DEEPEST:
        return "..."
    if isinstance(value, dict):
        kept = {name: guard(inner, str(name), depth + 1) for name, inner in islice(value.items(), MOST)}
        return kept | ({"...": f"{len(value) - MOST:,} more"} if len(value) > MOST else {})
    if isinstance(value, list | tuple):
        cut = [f"... {len(value) - MOST:,} more"] if len(value) > MOST else []
        return [guard(inner, "", depth + 1) for inner in value[:MOST]] + cut
    text = mask(repr(value) if isinstance(value, BaseException) else str(value))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text):,} characters)"


def mask(text: str) -> str:
    if _HINT.search(text):
        for pattern, masked in _IN_TEXT:
            text = pattern.sub(masked, text)
    return text


log = structlog.get_logger()

_HANDLER = "balancewatch"
_FIRST = ("timestamp", "level", "event", "logger")
_counters: list[Callable[[str], None]] = []
_is_json_only = threading.Event()
"""Whether log.format is "json": then the reason of a failure is JSON too."""


def set_up_logs(settings: Log) -> None:
    """Set level and format of this process's logs, the libraries' logs, warnings and uncaught errors."""
    is_json = settings.format == "json" or (settings.format == "auto" and not sys.stderr.isatty())
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, *_SHARED, *_rendering(is_json)],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, settings.level)),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # the current stderr, which a test may replace
        cache_logger_on_first_use=False,
    )
    _set_up_libraries(is_json)
    (_is_json_only.set if settings.format == "json" else _is_json_only.clear)()
    sys.excepthook = _say_uncaught
    threading.excepthook = _say_uncaught_in_thread


@contextmanager
def keep_stderr() -> Iterator[None]:
    """Keep this process's log lines on stderr while file descriptor 2 is redirected.

    In the pipe of JvmLines each would be logged again, and that line again.
    """
    stderr = sys.stderr
    with suppress(OSError):  # a test's stream has no descriptor
        if stderr.fileno() == 2:  # the copy stays open: a thread may be writing to it afterwards
            sys.stderr = open(os.dup(2), "w", 1, stderr.encoding, stderr.errors, closefd=False)  # noqa: SIM115  # see above
    try:
        yield
    finally:
        sys.stderr = stderr


def say_failure(reason: str) -> None:
    """Print why a command ends to stderr: a sentence, or a line of JSON."""
    if _is_json_only.is_set():
        log.error("command failed", reason=reason)
    else:
        warn(f"error: {reason}")


def say_crash(error: Exception) -> None:
    """Print an unexpected error with its trace, as a log line if logs are set up."""
    if structlog.is_configured():
        log.critical("crashed", exc_info=error)
    else:
        warn("".join(traceback.format_exception(error)).rstrip())


def count_lines(count: Callable[[str], None] | None) -> None:
    """Call `count` with the level of each warning and error from now on; None ends it."""
    _counters[:] = [count] if count is not None else []


def _count(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    level = "error" if event["level"] == "critical" else event["level"]
    if level in ("warning", "error"):
        for count in _counters:
            count(level)
    return event


def _guard_values(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Mask secrets and cut long values, except a trace for people, whose end matters."""
    in_order = {key: event[key] for key in _FIRST if key in event} | dict(event)
    return {
        key: mask(value) if key == "exception" and isinstance(value, str) else guard(value, key)
        for key, value in in_order.items()
    }


def _make_visible(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Escape names from Kafka, which could control a terminal. JSON is escaped by `_render_json`."""
    return {visible(key): visible(value) if isinstance(value, str) else value for key, value in event.items()}


def _render_json(logger: WrappedLogger, name: str, event: EventDict) -> str:
    """Return one line in ASCII, with DEL escaped too."""
    return visible_json(str(_JSON(logger, name, event)))


_JSON = structlog.processors.JSONRenderer(default=repr)
_EXCEPTION = ExceptionDictTransformer(show_locals=False, max_frames=30)

_SHARED: tuple[Processor, ...] = (
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    _count,
)


def _rendering(is_json: bool) -> tuple[Processor, ...]:
    if is_json:
        exceptions = structlog.processors.ExceptionRenderer(_EXCEPTION)
        return exceptions, _guard_values, _render_json
    for_people = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    return structlog.processors.format_exc_info, _guard_values, _make_visible, for_people


def _set_up_libraries(is_json: bool) -> None:
    """Log warnings and errors of the standard library's logging in the same form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.name = _HANDLER
    handler.setLevel(logging.WARNING)
    handler.addFilter(_is_news)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_SHARED],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(is_json)],
        )
    )
    root = logging.getLogger()
    for known in [one for one in root.handlers if one.name == _HANDLER]:
        root.removeHandler(known)
    root.addHandler(handler)
    logging.captureWarnings(capture=True)


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether to log it. Kafka's retries, py4j's calls and a query's end are reported elsewhere."""
    library = record.name.split(".")[0]
    return library != "py4j" and (library != "kafka" or record.levelno >= logging.ERROR)


def _say_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    else:
        log.critical("crashed", exc_info=(kind, error, trace))


def _say_uncaught_in_thread(crash: threading.ExceptHookArgs) -> None:
    name = crash.thread.name if crash.thread is not None else "?"
    if crash.exc_value is not None:
        log.error("thread crashed", thread=name, exc_info=(crash.exc_type, crash.exc_value, crash.exc_traceback))
