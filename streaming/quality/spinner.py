"""A sign of life on the terminal while something takes a few seconds; nothing where nobody looks."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from streaming.text.console import VisibleConsole


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """Shown on stderr, and gone afterwards."""
    console = VisibleConsole(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(what, total=None)
        yield
