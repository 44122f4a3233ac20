"""Help at any width: examples stay on one line each, and a word with hyphens is never split."""

import inspect
from typing import Any

import typer

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
