"""Rich's console for the commands: tables, colours and progress, of which no text makes the terminal do anything.

Text is written out (`visible`) before it is laid out, so that columns keep their widths, and once more when it is
printed, whatever it came in. Markup, emoji codes and highlights are off: names are not of that language.
"""

import os
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Span, Text

from streaming.text.fitting import Sheet, blocks, fit, least_width, printed_width
from streaming.text.visible_text import visible


class VisibleConsole(Console):
    """A console of whose escapes every one is its own: colours, and where the cursor goes.

    Tables are printed as there is room for them (streaming.text.fitting). COLUMNS in the environment says how wide a
    terminal is, whether there is one or not; without it what goes to a file or a pipe has all the room that tables
    take, but for those with lines between their rows, whose cells are prose.
    """

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """As Rich does, but for a table that is printed by itself."""
        if len(objects) == 1 and isinstance(objects[0], Table) and objects[0].box is not None:
            self._print_table(objects[0])
        else:
            super().print(*objects, **options)

    def _print_table(self, table: Table) -> None:
        sheet = Sheet.of(table, _written_out)
        width: int | None = self.width
        if self._width is None and not self._has_terminal():
            width = max(self.width, least_width(sheet)) if table.show_lines else None
        fitted = fit(table, sheet, width)
        if fitted is None:
            for line in blocks(table, sheet, self.width):
                super().print(line)
            return
        asked, self._width = self._width, max(self.width, printed_width(fitted))
        try:
            super().print(fitted)
        finally:
            self._width = asked

    def _has_terminal(self) -> bool:
        """Whether a person sees it, or a worker's parent says so; colours that are asked for a pipe are no terminal."""
        return self.file.isatty() or os.environ.get("TTY_COMPATIBLE") == "1"

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As Rich does, which comes here for every cell of a table and every line."""
        if isinstance(renderable, Text):
            renderable = _written_out(renderable)
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def _written_out(text: Text) -> Text:
    """The same, with each style where it was."""
    shown = visible(text.plain)
    if shown == text.plain:
        return text
    places = list(accumulate((len(visible(character)) for character in text.plain), initial=0))
    written = text.blank_copy(shown)
    written.spans = [
        Span(places[span.start], places[min(span.end, len(places) - 1)], span.style)
        for span in text.spans
        if span.start < len(places)
    ]
    return written
