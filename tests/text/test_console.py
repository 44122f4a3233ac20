"""Rich's tables of hostile text: what is written out fits its column, and each style stays on its part."""

import io

from rich.table import Table
from rich.text import Text

from streaming.text.console import VisibleConsole


def printed(what: object, **options: object) -> str:
    file = io.StringIO()
    VisibleConsole(file=file, width=40, **options).print(what)
    return file.getvalue()


def test_columns_keep_their_widths() -> None:
    table = Table()
    table.add_column("\x1b[2Jname", overflow="fold")
    table.add_column("what", overflow="fold")
    for name in ("\x1b]0;t\x07" * 2, "plain", Text("\u202e" * 4)):
        table.add_row(name, "x")
    lines = printed(table).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "\\x1b[2J" in "".join(line.strip("┃ ") for line in lines)


def test_a_style_stays_on_its_part() -> None:
    text = Text("\u202e").append("RED", style="red").append("\x9b")
    assert printed(text, force_terminal=True, color_system="standard") == "\\u202e\x1b[31mRED\x1b[0m\\x9b\n"


def test_markup_and_emoji_codes_are_text() -> None:
    assert printed("[red]a[/red] [link=http://e]b[/link] :bomb:") == "[red]a[/red] [link=http://e]b[/link] \n:bomb:\n"
