"""Rich's console for the commands: tables, colours and progress, safe for terminals.

Text is escaped (`visible`) before the layout, so that columns keep their widths, and again when it is printed. Markup,
emoji codes and highlights are off, because names may contain their signs.

A table fits the terminal without broken words, or each record is printed as a block with a line per column. A word is
text between blanks; a date and its time of day are one. A word longer than a line breaks behind a sign such as `-` or
`@` if it has one.
"""

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Self

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Span, Text

from streaming.text.visible_text import visible

EDGES = 3
"""Width of a column beside its text: a blank on both sides and a line."""

LEAST = 20
"""Least width of a layout, however narrow the terminal."""

TAB = 8

_PARTS = re.compile(r"[\W_]*[^\W_]+[\W_]*|[\W_]+")
"""Parts of a long word: letters and digits with the signs behind them."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: UTC)?")
_WORDS = re.compile(rf"{_TIME.pattern}|\S+")


@dataclass(frozen=True)
class Sheet:
    """The printed texts of a table; `heads` are its headings."""

    heads: tuple[Text, ...]
    records: tuple[tuple[Text, ...], ...]

    @classmethod
    def of(cls, table: Table, shown: Callable[[Text], Text]) -> Self:

        def text_of(cell: object) -> Text:
            text = shown(cell if isinstance(cell, Text) else Text(str(cell)))
            text.expand_tabs(TAB)
            return text

        columns = [[text_of(cell) for cell in column.cells] for column in table.columns]
        return cls(tuple(text_of(one.header) for one in table.columns), tuple(zip(*columns, strict=True)))

    def column(self, number: int) -> Iterator[Text]:
        yield self.heads[number]
        for record in self.records:
            yield record[number]

    def needs(self) -> list[int]:
        return [max(map(longest_word, self.column(number))) for number in range(len(self.heads))]

    def wishes(self) -> list[int]:
        columns = map(self.column, range(len(self.heads)))
        return [max(cell_len(line) for text in column for line in text.plain.split("\n")) for column in columns]


def longest_word(text: Text) -> int:
    return max((cell_len(word[0]) for word in _WORDS.finditer(text.plain)), default=0)


def fit(table: Table, sheet: Sheet, width: int | None) -> Table | None:
    """Return the table at this width (None: unlimited), or None if a word would break."""
    needs = sheet.needs()
    wishes = [
        max(need, wish if column.max_width is None else min(wish, column.max_width))
        for column, need, wish in zip(table.columns, needs, sheet.wishes(), strict=True)
    ]
    room = sum(wishes) if width is None else width - printed_width([0] * len(needs))
    return None if sum(needs) > room else _with_widths(table, sheet, _share(needs, wishes, room))


def printed_width(widths: Collection[int]) -> int:
    """Return the width of a table with columns of these widths."""
    return sum(widths) + EDGES * len(widths) + 1


def _share(needs: Sequence[int], wishes: Sequence[int], room: int) -> list[int]:
    """Return widths up to the wishes; without enough room the widest columns shrink, down to their needs."""
    if sum(wishes) <= room:
        return list(wishes)
    widths = list(needs)
    for _ in range(room - sum(needs)):
        width, number = min((width, number) for number, width in enumerate(widths) if width < wishes[number])
        widths[number] = width + 1
    return widths


def _with_widths(table: Table, sheet: Sheet, widths: Sequence[int]) -> Table:
    fitted = Table(show_header=table.show_header, show_lines=table.show_lines, caption=table.caption)
    for column, head, width in zip(table.columns, sheet.heads, widths, strict=True):
        text = Text("\n").join(wrap(head, width))
        fitted.add_column(text, justify=column.justify, style=column.style, width=width)
    for row, record in zip(table.rows, sheet.records, strict=True):
        cells = (Text("\n").join(wrap(text, width)) for text, width in zip(record, widths, strict=True))
        fitted.add_row(*cells, style=row.style, end_section=row.end_section)
    return fitted


def blocks(table: Table, sheet: Sheet, width: int) -> Iterator[Text]:
    """Yield a block per record, with a blank line between blocks; without headings, the lines of the rows."""
    width = max(width, LEAST)
    if not table.show_header:
        pairs = [(record[0], Text("\n").join(record[1:])) for record in sheet.records]
        yield from _block(pairs, width)
        return
    for number, record in enumerate(sheet.records):
        if number:
            yield Text()
        yield from _block(list(zip(sheet.heads, record, strict=True)), width)
    if table.caption:
        yield Text()
        yield from wrap(Text(str(table.caption)), width)


def _block(pairs: Sequence[tuple[Text, Text]], width: int) -> Iterator[Text]:
    """Yield each value beside its label, or below it if a word does not fit there."""
    margin = max(cell_len(label.plain) for label, _ in pairs) + 2
    for label, value in pairs:
        if not label.plain:
            yield from wrap(value, width)
            continue
        head = Text().append(f"{label.plain}:", style="bold")
        if margin <= width // 2 and longest_word(value) <= width - margin:
            lines = list(wrap(value, width - margin))
            head.append(" " * (margin - cell_len(head.plain)) if value.plain else "")
            yield head.append_text(lines[0])
            yield from (Text(" " * margin).append_text(line) for line in lines[1:])
        else:
            yield from wrap(head, width)
            yield from (Text("  ").append_text(line) for line in wrap(value, width - 2))


def wrap(text: Text, width: int) -> Iterator[Text]:
    """Yield lines of at most this width, with their styles."""
    for line in text.split("\n", allow_blank=True):
        ends = [] if cell_len(line.plain) <= width else list(_ends(line.plain, width))
        for piece in line.divide(ends):
            piece.rstrip()
            yield piece


def _ends(line: str, width: int) -> Iterator[int]:
    """Yield the ends of all lines but the last."""
    columns = list(accumulate(map(cell_len, line), initial=0))
    start = 0
    for word in _WORDS.finditer(line):
        if columns[word.end()] - columns[start] <= width:
            continue
        if word.start() > start:
            start = word.start()
            yield start
        for part in _PARTS.finditer(line, start, word.end()):
            if columns[part.end()] - columns[start] > width and part.start() > start:
                start = part.start()
                yield start
            while columns[part.end()] - columns[start] > width:
                start = max(start + 1, bisect_right(columns, columns[start] + width) - 1)
                yield start


class VisibleConsole(Console):
    """A console that prints no escape sequence of its input, and fits tables.

    COLUMNS in the environment sets the width, with a terminal or without. Otherwise a table in a file or a pipe has all
    the room it takes, except one with lines between its rows, whose cells are prose.
    """

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as Rich does; a table by itself is fitted."""
        if len(objects) == 1 and isinstance(objects[0], Table) and objects[0].box is not None:
            self._print_table(objects[0])
        else:
            super().print(*objects, **options)

    def _print_table(self, table: Table) -> None:
        sheet = Sheet.of(table, _written_out)
        width: int | None = self.width
        is_terminal = self.file.isatty() or os.environ.get("TTY_COMPATIBLE") == "1"  # of a worker's parent
        if self._width is None and not is_terminal:
            width = max(self.width, printed_width(sheet.needs())) if table.show_lines else None
        fitted = fit(table, sheet, width)
        if fitted is None:
            for line in blocks(table, sheet, self.width):
                super().print(line)
            return
        widths = [column.width or 0 for column in fitted.columns]
        asked, self._width = self._width, max(self.width, printed_width(widths))
        try:
            super().print(fitted)
        finally:
            self._width = asked

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as Rich does, which calls this for every cell and line."""
        if isinstance(renderable, Text):
            renderable = _written_out(renderable)
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def _written_out(text: Text) -> Text:
    """Return the escaped text with its styles in place."""
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
