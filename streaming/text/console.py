"""Rich's console for the commands: tables, colours and progress, safe for terminals.

Text is escaped (`visible`) before the layout, so that columns keep their widths, and again when it is printed. Markup,
emoji codes and highlights are off, because names may contain their signs.

A table fits the terminal without broken words, or each record is printed as a block with a line per column. A word is
text between blanks; a date and its time of day are one. A word longer than a line breaks behind a sign such as `-` or
`@` if it has one. In a file or a pipe a table is a line of aligned columns per row, like a table without box.
"""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from streaming.text.visible_text import visible

EDGES = 3
"""Width of a column beside its text: a blank on both sides and a line."""

GAP = "  "
"""Between two columns without lines."""

SHORT = 8
"""Width to which a column without lines may be cut."""

WIDE = 1_000_000
"""Width of the lines of a file or a pipe."""

LEAST = 20
"""Least width of a block, however narrow the terminal."""

_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: UTC)?")
_JOINED = "\ue000"
"""A blank of a time during the layout, so that Rich keeps the time on one line."""


class VisibleConsole(Console):
    """A console that prints no escape sequence of its input, and fits tables.

    COLUMNS in the environment sets the width, with a terminal or without.
    """

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as Rich does; a table by itself is fitted."""
        if len(objects) == 1 and isinstance(objects[0], Table):
            self._print_table(objects[0])
        else:
            super().print(*objects, **options)

    def _print_table(self, table: Table) -> None:
        columns = [[self._prepared(cell) for cell in (column.header, *column.cells)] for column in table.columns]
        needs = [max(map(_longest_word, column)) for column in columns]
        lines = [[line for cell in column for line in cell.plain.split("\n")] for column in columns]
        wishes = [
            max(need, min(max(map(cell_len, texts)), column.max_width or sys.maxsize))
            for column, need, texts in zip(table.columns, needs, lines, strict=True)
        ]
        edges = EDGES * len(columns) + 1
        width = self.width
        is_terminal = self.file.isatty() or os.environ.get("TTY_COMPATIBLE") == "1"  # of a worker's parent
        if self._width is None and not is_terminal:
            self._print_lines(table, columns, WIDE)
            return
        if table.box is None:
            self._print_lines(table, columns, width)
            return
        if sum(needs) + edges > width:
            self._print_blocks(table, columns)
            return
        for column, chosen in zip(table.columns, _share(needs, wishes, width - edges), strict=True):
            column.width, column.no_wrap, column.overflow = chosen, False, "fold"
        asked, self._width = self._width, width
        try:
            super().print(table)
        finally:
            self._width = asked

    def _print_lines(self, table: Table, columns: Sequence[Sequence[Text]], width: int) -> None:
        """Print a line per row in aligned columns without a box.

        Where lines exceed the width, cells are cut, except in columns with `no_wrap`.
        """
        first = 0 if table.show_header else 1
        lines = [[Text(GAP).join(cell.split("\n")) for cell in column[first:]] for column in columns]
        wishes = [max(cell_len(cell.plain) for cell in column) for column in lines]
        needs = [
            wish if column.no_wrap else min(wish, SHORT) for wish, column in zip(wishes, table.columns, strict=True)
        ]
        breaks = len(wishes) - 1
        gap = GAP if sum(wishes) + len(GAP) * breaks <= width else " "
        widths = _share(needs, wishes, width - len(gap) * breaks)
        for number, row in enumerate(zip(*lines, strict=True), first):
            for cell, column, chosen in zip(row, table.columns, widths, strict=True):
                cell.truncate(chosen, overflow="ellipsis")
                cell.align("right" if column.justify == "right" else "left", chosen)
            line = Text(gap).join(row)
            line.rstrip()
            super().print(line, style="bold" if number == 0 else None, soft_wrap=True)
        if table.caption:
            super().print(table.caption)

    def _print_blocks(self, table: Table, columns: Sequence[Sequence[Text]]) -> None:
        """Print a block per record, with a blank line between blocks; without headings, the lines of the rows."""
        heads, *records = zip(*columns, strict=True)
        if not table.show_header:
            self._print_block([(record[0], Text("\n").join(record[1:])) for record in records])
            return
        for number, record in enumerate(records):
            if number:
                super().print()
            self._print_block(list(zip(heads, record, strict=True)))
        if table.caption:
            super().print(f"\n{table.caption}")

    def _print_block(self, pairs: Sequence[tuple[Text, Text]]) -> None:
        """Print each value beside its label, or below it if a word does not fit there."""
        width = max(self.width, LEAST)
        margin = max(cell_len(label.plain) for label, _ in pairs) + 2
        for label, value in pairs:
            indent = margin if margin <= width // 2 and margin + _longest_word(value) <= width else 2
            lines = list(_broken(value, width - indent).wrap(self, width - indent)) if value.plain else []
            for line in lines:
                line.rstrip()
            head = Text().append(f"{label.plain}:", style="bold")
            if indent == margin and lines:
                head.append(" " * (margin - cell_len(head.plain))).append_text(lines.pop(0))
            super().print(head)
            for line in lines:
                super().print(Text(" " * indent).append_text(line))

    def _prepared(self, cell: object) -> Text:
        """Return the text escaped, with its styles in place and without blanks in its times."""
        text = cell.copy() if isinstance(cell, Text) else Text(str(cell))
        if visible(text.plain) != text.plain:
            escaped = text.blank_copy()
            for part in text.render(self):
                escaped.append(visible(part.text), part.style)
            text = escaped
        text.expand_tabs(8)
        text.plain = _TIME.sub(lambda time: time[0].replace(" ", _JOINED), text.plain)
        return text

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as Rich does, which calls this for every cell and line."""
        if isinstance(renderable, Text):
            renderable = self._prepared(renderable)
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else visible(segment.text).replace(_JOINED, " ")
            yield Segment(text, segment.style, segment.control)


def _broken(text: Text, width: int) -> Text:
    """Return the text with line feeds behind signs in words that are longer than a line."""
    pieces = re.compile(rf".{{1,{width}}}$|.{{1,{width}}}(?<=[\W_])|.{{1,{width}}}")
    long = (word for word in re.finditer(r"\S+", text.plain) if len(word[0]) > width)
    ends = [word.start() + piece.end() for word in long for piece in list(pieces.finditer(word[0]))[:-1]]
    return Text("\n").join(text.divide(ends))


def _longest_word(text: Text) -> int:
    return max(map(cell_len, text.plain.split()), default=0)


def _share(needs: Sequence[int], wishes: Sequence[int], room: int) -> list[int]:
    """Return widths up to the wishes; without enough room the widest columns shrink, down to their needs."""
    widths = list(needs)
    for _ in range(min(room, sum(wishes)) - sum(needs)):
        width, number = min((width, number) for number, width in enumerate(widths) if width < wishes[number])
        widths[number] = width + 1
    return widths
