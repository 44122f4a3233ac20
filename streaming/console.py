"""Rich's console for the commands: tables, colours and progress, of which no text makes the terminal do anything.

Text is written out (`visible`) before it is laid out, so that columns keep their widths, and once more when it is
printed, whatever it came in. Markup, emoji codes and highlights are off: names are not of that language.
"""

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Span, Text

from streaming.visible_text import visible


class VisibleConsole(Console):
    """A console of whose escapes every one is its own: colours, and where the cursor goes."""

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False, **options)

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
