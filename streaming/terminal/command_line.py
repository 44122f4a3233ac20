"""The command line: flags before the command, help at any width, and escaped usage errors.

Examples in help stay on one line each, and a word with hyphens is never split. Usage errors repeat user input, so
unprintable characters in them are escaped.
"""

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from streaming.text.output import say
from streaming.text.visible_text import visible

_given: ContextVar[dict[str, str | None] | None] = ContextVar("given", default=None)


def _say_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version  # noqa: PLC0415  # takes as long as the help

        say(f"balancewatch {version('balancewatch')}")
        raise typer.Exit


def log_flags(
    log_level: Annotated[
        str | None, typer.Option("--log-level", help="DEBUG, INFO, WARNING or ERROR [log.level]", metavar="LEVEL")
    ] = None,
    log_format: Annotated[
        str | None, typer.Option("--log-format", help="auto, console or json [log.format]", metavar="FORMAT")
    ] = None,
    version: Annotated[  # its callback answers
        bool, typer.Option("--version", help="Print the version and exit.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Keep the flags before the command; `load` validates them."""
    _given.set({"level": log_level and log_level.upper(), "format": log_format and log_format.lower()})


def given_log_flags() -> dict[str, str | None]:
    """Return the flags of this call as keys of [log]."""
    return _given.get() or {}


EXAMPLE = "Example: "
HYPHEN, UNBROKEN = "-", "\u2011"
AS_IS = "\b"
"""Click does not wrap a paragraph that begins with this line."""


class Formatter(typer.Context.formatter_class):  # type: ignore[misc, valid-type]  # Typer keeps its Click to itself
    """A formatter that breaks lines at blanks only: `--no-retention` can be copied."""

    def write(self, string: str) -> None:
        super().write(string.replace(UNBROKEN, HYPHEN))

    def write_text(self, text: str) -> None:
        super().write_text(text.replace(HYPHEN, UNBROKEN))

    def write_dl(self, rows: Any, *arguments: Any, **named: Any) -> None:
        super().write_dl([(name, text.replace(HYPHEN, UNBROKEN)) for name, text in rows], *arguments, **named)


class HelpContext(typer.Context):
    """A context whose help the Formatter writes."""

    formatter_class = Formatter


def readable(command: Any) -> Any:
    """Return the command with its help, and that of its loaded subcommands, prepared for the Formatter."""
    command.context_class = HelpContext
    command.help = keep_examples(command.help or "")
    below = getattr(command, "commands", None)
    for subcommand in below.values() if isinstance(below, dict) else ():
        readable(subcommand)
    return command


def keep_examples(text: str) -> str:
    """Return the help with its `Example:` paragraphs as one block, an example a line, which is not wrapped."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    examples = [" ".join(one.removeprefix(EXAMPLE).split()) for one in paragraphs if one.startswith(EXAMPLE)]
    prose = [one for one in paragraphs if not one.startswith(EXAMPLE)]
    if examples:
        prose.append("\n".join([AS_IS, "Examples:", *(f"  {example}" for example in examples)]))
    return "\n\n".join(prose)


class VisibleCommands(TyperGroup):
    """A command group with escaped usage errors."""

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        return _visibly(super().make_context, *arguments, **named)

    def invoke(self, ctx: Any) -> Any:
        return _visibly(super().invoke, ctx)


def _visibly(work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Run `work`; escape the message of its usage error, which formats it when it is shown."""
    try:
        return work(*arguments, **named)
    except Exception as refusal:
        if message := getattr(refusal, "format_message", None):
            text = visible(message())
            refusal.format_message = lambda: text  # type: ignore[attr-defined]  # Typer keeps its Click to itself
        raise
