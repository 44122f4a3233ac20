"""Rows that break their table's contract are in no view: each page says so of the tables that it tells of."""

from collections.abc import Collection, Mapping

from dash import html
from dash.development.base_component import Component

from streaming.board import elements as el
from streaming.board.counts import counted


def left_out_notice(left_out: Mapping[str, int], tables: Collection[str]) -> Component | None:
    """How many rows of which of these tables cannot be read; None where all can."""
    counts = {name: number for name, number in sorted(left_out.items()) if name in tables}
    if not counts:
        return None
    rows = " and ".join(f"{counted(number, 'row')} of {name}" for name, number in counts.items())
    return el.notice(
        "stale",
        f"{rows} cannot be read and {'is' if sum(counts.values()) == 1 else 'are'} left out.",
        html.P(
            "They break their table's contract, as rows of a damaged or forged file do. All others are shown; what "
            "these would tell is missing here, and in the answers of the commands."
        ),
        id_="unreadable",
    )
