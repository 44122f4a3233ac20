"""The option -o: the format of a command's output."""

import sys
from typing import Any, Literal

import typer

from streaming.terminal.command import fail

Format = Literal["table", "wide", "json", "csv", "parquet"]
FORMATS: tuple[Format, ...] = ("table", "wide", "json", "csv", "parquet")


def format_option(*formats: Format, text: str = "") -> Any:
    """Return the option, which refuses other formats with 2, and parquet on a terminal."""

    def check(given: str) -> str:
        if given not in formats:
            fail(f"--output {given!r}: choose {', '.join(formats[:-1])} or {formats[-1]}", code=2)
        if given == "parquet" and is_terminal():
            fail("--output parquet writes bytes: redirect them to a file (> rows.parquet) or a pipe", code=2)
        return given

    return typer.Option(
        *("--output", "-o", "--format"),
        help=text or f"{', '.join(formats[:-1])} or {formats[-1]}.",
        metavar="FORMAT",
        callback=check,
        autocompletion=lambda: list(formats),
    )


def is_terminal() -> bool:
    return sys.stdout.isatty()
