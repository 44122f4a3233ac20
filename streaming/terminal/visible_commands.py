"""Usage errors (unknown option, value or command) with unprintable characters escaped: they repeat user input."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.core import TyperGroup

from streaming.text.visible_text import visible


class VisibleCommands(TyperGroup):
    """A command group with escaped usage errors."""

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        with _visibly():
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: Any) -> Any:
        with _visibly():
            return super().invoke(ctx)


@contextmanager
def _visibly() -> Iterator[None]:
    """Escape the message of a usage error, which formats it when it is shown."""
    try:
        yield
    except Exception as refusal:
        message = getattr(refusal, "format_message", None)
        if message is not None:
            text = visible(message())
            refusal.format_message = lambda: text  # type: ignore[attr-defined]  # Typer keeps its Click to itself
        raise
