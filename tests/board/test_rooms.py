"""What the rooms of the board may not know, beside the order that tests/test_layout.py holds."""

import re

from tests.offenders import assert_none
from tests.test_layout import ROOT, imports_of, name_of

ASKING = re.compile(r"streaming\.store\.|.*\.(read|find)_\w+$")
DRAWING = re.compile(r"(dash|plotly)\b")


def test_drawings_ask_no_table_and_queries_draw_nothing() -> None:
    assert_none(
        f"{name_of(path)}:{line} imports {name}"
        for room, forbidden in (("url", DRAWING), ("queries", DRAWING), ("drawing", ASKING))
        for path in sorted((ROOT / "streaming/board" / room).glob("*.py"))
        for line, name, _ in imports_of(path)
        if forbidden.match(name)
    )
