"""`balancewatch --log-level LEVEL --log-format FORMAT COMMAND`: log settings of one call."""

from contextvars import ContextVar
from typing import Annotated

import typer

_given: ContextVar[dict[str, str | None] | None] = ContextVar("given", default=None)


def log_flags(
    log_level: Annotated[
        str | None, typer.Option("--log-level", help="DEBUG, INFO, WARNING or ERROR [log.level]", metavar="LEVEL")
    ] = None,
    log_format: Annotated[
        str | None, typer.Option("--log-format", help="auto, console or json [log.format]", metavar="FORMAT")
    ] = None,
) -> None:
    """Keep the flags before the command; `load` validates them."""
    _given.set({"level": log_level and log_level.upper(), "format": log_format and log_format.lower()})


def given_log_flags() -> dict[str, str | None]:
    """Return the flags of this call as keys of [log]."""
    return _given.get() or {}
