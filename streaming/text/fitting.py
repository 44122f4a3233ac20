"""A table as a terminal has room for it: no word is broken, or each record is a block of lines, a line a column.

A word is what stands between blanks; a time of day and its date are one. A name that is longer than a line is broken
behind a sign such as `-` or `@` where it has one.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

EDGES = 3
"""What a column takes beside its text: a blank on both sides and a line."""

LEAST = 20
"""Columns of a terminal that are laid out for, however narrow it is."""

TAB = 8

_PARTS = re.compile(r"[\W_]*[^\W_]+[\W_]*|[\W_]+")
"""Of a long word: letters and digits, and the signs behind them."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: UTC)?")
_WORDS = re.compile(rf"{_TIME.pattern}|\S+")


@dataclass(frozen=True)
class Sheet:
    """The texts of a table, as they are shown; `heads` are its headings."""

    heads: tuple[Text, ...]
    records: tuple[tuple[Text, ...], ...]

    @classmethod
    def of(cls, table: Table, shown: Callable[[Text], Text]) -> Self:
        """`shown` makes of a text what the terminal gets."""

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
        """By column its longest word."""
        return [max(map(longest_word, self.column(number))) for number in range(len(self.heads))]

    def wishes(self) -> list[int]:
        """By column its longest line."""
        return [max(map(longest_line, self.column(number))) for number in range(len(self.heads))]


def longest_word(text: Text) -> int:
    return max((cell_len(word[0]) for word in _WORDS.finditer(text.plain)), default=0)


def longest_line(text: Text) -> int:
    return max((cell_len(line) for line in text.plain.split("\n")), default=0)


def fit(table: Table, sheet: Sheet, width: int | None) -> Table | None:
    """The table in `width` columns of a terminal, None for as many as it takes; None where a word would be broken."""
    needs = sheet.needs()
    wishes = [
        max(need, wish if column.max_width is None else min(wish, column.max_width))
        for column, need, wish in zip(table.columns, needs, sheet.wishes(), strict=True)
    ]
    room = sum(wishes) if width is None else width - EDGES * len(needs) - 1
    return None if sum(needs) > room else _with_widths(table, sheet, _share(needs, wishes, room))


def least_width(sheet: Sheet) -> int:
    """Of a terminal in which no word is broken."""
    needs = sheet.needs()
    return sum(needs) + EDGES * len(needs) + 1


def printed_width(fitted: Table) -> int:
    """Of what `fit` gives."""
    return sum((column.width or 0) + EDGES for column in fitted.columns) + 1


def _share(needs: Sequence[int], wishes: Sequence[int], room: int) -> list[int]:
    """Columns as wide as they wish, the widest less where there is no room, and none less than it needs."""
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
        fitted.add_column(_wrapped(head, width), justify=column.justify, style=column.style, width=width)
    for row, record in zip(table.rows, sheet.records, strict=True):
        cells = map(_wrapped, record, widths)
        fitted.add_row(*cells, style=row.style, end_section=row.end_section)
    return fitted


def _wrapped(text: Text, width: int) -> Text:
    return Text("\n").join(wrap(text, width))


def blocks(table: Table, sheet: Sheet, width: int) -> Iterator[Text]:
    """The lines of a block a record, with a blank line between two; a table without headings has those of its rows."""
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
    """A value stands beside its label; below it where it has a word for which there is no room there."""
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
    """Lines of at most so many columns, each part with its style."""
    for line in text.split("\n", allow_blank=True):
        ends = [] if cell_len(line.plain) <= width else list(_ends(line.plain, width))
        for piece in line.divide(ends):
            piece.rstrip()
            yield piece


def _ends(line: str, width: int) -> Iterator[int]:
    """Where its lines end, but for the last."""
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
