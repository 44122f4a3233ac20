"""Generated parts of a page: only they change, and a page that cannot be followed is refused."""

import pytest

from tests.manual.block import PageError, fill_blocks, markdown_table

PAGE = (
    "# Head\n\n<!-- generated: one -->\nold\n<!-- end: one -->\n\n"
    "between\n<!-- generated: two -->\n<!-- end: two -->\nend\n"
)


def test_only_what_stands_between_the_marks_is_written_anew() -> None:
    filled = fill_blocks(PAGE, {"one": "new", "two": "second"})
    assert filled == (
        "# Head\n\n<!-- generated: one -->\n\nnew\n\n<!-- end: one -->\n\nbetween\n"
        "<!-- generated: two -->\n\nsecond\n\n<!-- end: two -->\nend\n"
    )
    assert fill_blocks(filled, {"one": "new", "two": "second"}) == filled


def test_a_block_that_nobody_writes_is_named_beside_those_that_are() -> None:
    with pytest.raises(PageError, match="generated: one: no such block; there are other, two"):
        fill_blocks(PAGE, {"two": "", "other": ""})


def test_a_block_without_an_end_is_refused() -> None:
    with pytest.raises(PageError, match="<!-- end: two -->"):
        fill_blocks(PAGE.replace("<!-- end: two -->", ""), {"one": "", "two": ""})


def test_a_bar_or_a_line_break_does_not_break_a_table() -> None:
    assert markdown_table(("a", "b"), [("x|y", "1\n2")]) == "| a | b |\n| --- | --- |\n| x\\|y | 1 2 |"
