"""The command line's own refusals, which repeat what was typed: of an option, a value, a command that is not there."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.core import TyperGroup

from streaming.text.visible_text import visible


class VisibleCommands(TyperGroup):
    """The group of all commands."""

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        with _visibly():
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: Any) -> Any:
        with _visibly():
            return super().invoke(ctx)


@contextmanager
def _visibly() -> Iterator[None]:
    """A refusal is an exception that formats its message when it is shown."""
    try:
        yield
    except Exception as refusal:
        message = getattr(refusal, "format_message", None)
        if message is not None:
            text = visible(message())
            refusal.format_message = lambda: text  # type: ignore[attr-defined]  # Typer keeps its Click to itself
        raise
