"""Logs by structlog: for people on a terminal, JSON elsewhere; always on stderr, so stdout stays data.

A line is one event with its facts. Every JSON line has `timestamp` (ISO 8601, UTC), `level` and `event`; what libraries
say has `logger` too, and an exception is in `exception`, frame by frame, without the values of its variables.
"""

import logging
import sys
import threading
import traceback
from collections.abc import Callable
from types import TracebackType

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, Processor, WrappedLogger

from conf.settings import Log
from streaming.logs.log_values import bound, mask
from streaming.text.output import warn
from streaming.text.visible_text import visible, visible_json

log = structlog.get_logger()

_HANDLER = "balancewatch"
_FIRST = ("timestamp", "level", "event", "logger")
_heard: list[Callable[[str], None]] = []
_is_json_only = threading.Event()
"""Whether JSON was asked for by name: then our last words are JSON, too."""


def set_up_logs(settings: Log) -> None:
    """Set level and format for this process: ours, the libraries', warnings, and what nobody caught."""
    is_json = settings.format == "json" or (settings.format == "auto" and not sys.stderr.isatty())
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, *_SHARED, *_rendering(is_json)],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, settings.level)),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # the stderr of now, which a test may replace
        cache_logger_on_first_use=False,
    )
    _set_up_libraries(is_json)
    (_is_json_only.set if settings.format == "json" else _is_json_only.clear)()
    sys.excepthook = _say_uncaught
    threading.excepthook = _say_uncaught_in_thread


def say_failure(reason: str) -> None:
    """Why a command ends, on stderr: a sentence, or the last line of a log that is JSON."""
    if _is_json_only.is_set():
        log.error("command failed", reason=reason)
    else:
        warn(f"error: {reason}")


def say_crash(error: Exception) -> None:
    """What a command did not expect, with its trace: as a log's last line where there is a log."""
    if structlog.is_configured():
        log.critical("crashed", exc_info=error)
    else:
        warn("".join(traceback.format_exception(error)).rstrip())


def count_lines(hear: Callable[[str], None] | None) -> None:
    """Tell `hear` the level of each warning and error from now on; with None nobody."""
    _heard[:] = [hear] if hear is not None else []


def _count(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    level = "error" if event["level"] == "critical" else event["level"]
    if level in ("warning", "error"):
        for hear in _heard:
            hear(level)
    return event


def _guard_values(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Secrets masked, long values cut. A trace for people is left whole, for its end is what tells."""
    guarded = {key: mask(value, key) for key, value in event.items()}
    first = {key: guarded.pop(key) for key in _FIRST if key in guarded}
    return {key: value if key == "exception" else bound(value) for key, value in {**first, **guarded}.items()}


def _make_visible(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Names come from Kafka, and a terminal would obey what is hidden in them; JSON escapes it by itself."""
    return {visible(key): visible(value) if isinstance(value, str) else value for key, value in event.items()}


def _render_json(logger: WrappedLogger, name: str, event: EventDict) -> str:
    """One line, in ASCII; JSON leaves DEL as it is."""
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
    """What libraries say by the standard library's logging, warnings and errors of it, in the same form."""
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
    """Not what we report ourselves: Kafka's retries, and py4j's calls and the Python side of a query's end."""
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
