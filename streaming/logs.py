"""Logs by structlog: for people on a terminal, JSON elsewhere; always on stderr, so stdout stays data."""

import logging
import sys

import structlog

from conf.settings import Log


def set_up_logs(log: Log) -> None:
    """Set level and format for this process."""
    is_json = log.format == "json" or (log.format == "auto" and not sys.stderr.isatty())
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if is_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, log.level)),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # the stderr of now, which a test may replace
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    handler.addFilter(_is_news)
    logging.basicConfig(handlers=[handler], format="%(levelname)s %(name)s: %(message)s")


def _is_news(record: logging.LogRecord) -> bool:
    """Not what we report ourselves: Kafka's retries, and py4j's calls and the Python side of a query's end."""
    library = record.name.split(".")[0]
    return library != "py4j" and (library != "kafka" or record.levelno >= logging.ERROR)
