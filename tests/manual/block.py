"""A generated part of a Markdown page: from `<!-- generated: NAME -->` to `<!-- end: NAME -->`."""

import re
from collections.abc import Iterable, Mapping, Sequence

_BEGIN = re.compile(r"<!-- generated: ([\w-]+) -->")


class PageError(ValueError):
    """A mark in a page is wrong. The message names the mark."""


def fill_blocks(page: str, blocks: Mapping[str, str]) -> str:
    """Return the page with each of its blocks rewritten and the text between them unchanged.

    Raises PageError for a block without an end, and for an unknown block.
    """
    filled, rest = [], page
    while found := _BEGIN.search(rest):
        name, end = found[1], f"<!-- end: {found[1]} -->"
        if name not in blocks:
            raise PageError(f"generated: {name}: no such block; there are {', '.join(sorted(blocks))}")
        head, _, tail = rest.partition(found[0])
        _, closed, rest = tail.partition(end)
        if not closed:
            raise PageError(f"generated: {name}: its end is missing, {end}")
        filled += [head, found[0], "\n\n", blocks[name].strip("\n"), "\n\n", end]
    return "".join([*filled, rest])


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in GitHub's Markdown; bars in cells are escaped, line breaks become spaces."""
    lines = [_row(head), _row(["---"] * len(head)), *(_row(row) for row in rows)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
