"""Tables as there is room for them, unbroken words in a table, else a block a record; and tables of hostile text."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from streaming.text.console import VisibleConsole

MEMBER = "10.20.0.13@4688#81203344121455 at 10.20.0.13:42986"
NAME = "10.20.0.13@4688#81203344121455-canary_blue.eu-central-1"
ROWS = (("2026-09-10 00:32:42", "INHIBITED", MEMBER), ("2026-09-10 00:32:43", "JOINED", "a@1 at b:2"))
HEADS = ("delivered at, UTC", "outcome", "member")


def table_of(rows: tuple[tuple[str, ...], ...] = ROWS, **options: object) -> Table:
    table = Table(*HEADS[: len(rows[0])], **options)  # type: ignore[arg-type]  # what a case is about
    for row in rows:
        table.add_row(*row)
    return table


def printed(what: object, width: int | None, **options: object) -> str:
    file = io.StringIO()
    VisibleConsole(file=file, width=width, **options).print(what)
    return file.getvalue()


IN_COLOURS = {"force_terminal": True, "color_system": "standard"}


def words(text: str) -> set[str]:
    return set(re.findall(r"[^\s│┃:]+", text))


def test_a_table_breaks_between_words_only_and_without_room_it_is_blocks() -> None:
    reported = printed(table_of(), 200)
    assert f"│ 2026-09-10 00:32:42 │ INHIBITED │ {MEMBER} │\n" in reported
    assert len(reported.splitlines()) == 6
    reported = printed(table_of(), 72)
    assert "│ 2026-09-10 00:32:42 │ INHIBITED │ 10.20.0.13@4688#81203344121455 at " in reported
    assert "│                     │           │ 10.20.0.13:42986 " in reported
    assert printed(table_of(), 60) == (
        "delivered at, UTC: 2026-09-10 00:32:42\n"
        "outcome:           INHIBITED\n"
        "member:            10.20.0.13@4688#81203344121455 at\n"
        "                   10.20.0.13:42986\n"
        "\n"
        "delivered at, UTC: 2026-09-10 00:32:43\n"
        "outcome:           JOINED\n"
        "member:            a@1 at b:2\n"
    )
    reported = printed(table_of(), 45).splitlines()
    assert reported[:5] == [
        "delivered at, UTC: 2026-09-10 00:32:42",
        "outcome:           INHIBITED",
        "member:",
        "  10.20.0.13@4688#81203344121455 at",
        "  10.20.0.13:42986",
    ]
    reported = printed(table_of((("2026-09-10 00:32:42", "JOINED", NAME),)), 34).splitlines()
    assert reported[-3:] == ["member:", "  10.20.0.13@4688#81203344121455-", "  canary_blue.eu-central-1"]
    rows = (("fires", "after 90 s"), ("reaches", "10.20.0.13@4688#81203344121455"))
    reported = printed(table_of(rows, show_header=False, show_lines=True), 40)
    assert reported == "fires:   after 90 s\nreaches: 10.20.0.13@4688#81203344121455\n"
    assert printed(table_of(caption="Nothing was changed."), 60).endswith("b:2\n\nNothing was changed.\n")


def test_a_file_gets_a_line_of_aligned_columns_per_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert printed(table_of(((*ROWS[0][:2], MEMBER * 4), ("", "JOINED\nLEFT", "")), caption="Dry run."), None) == (
        "delivered at, UTC    outcome       member\n"
        f"2026-09-10 00:32:42  INHIBITED     {MEMBER * 4}\n"
        "                     JOINED  LEFT\n"
        "Dry run.\n"
    )
    rows = (("fires", "after 90 s"), ("ends", "after 60 s"))
    assert printed(table_of(rows, show_header=False), None) == "fires  after 90 s\nends   after 60 s\n"


def test_a_table_without_box_is_cut_to_the_terminal_except_for_its_unbroken_columns() -> None:
    table = Table(box=None)
    table.add_column("kind", no_wrap=True)
    table.add_column("group")
    table.add_row("duplicate_client_id", "order-service")
    assert printed(table, 40) == "kind                 group\nduplicate_client_id  order-service\n"
    assert printed(table, 30) == "kind                group\nduplicate_client_id order-ser…\n"


def test_a_terminal_that_the_environment_reports_of_has_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert printed(table_of(), None) == printed(table_of(), 60)


def test_styles_stay_on_their_words_and_markup_is_text() -> None:
    table = Table("state", "who")
    table.add_row(Text("FIRING", style="red"), MEMBER)
    assert "\x1b[31mFIRING\x1b[0m" in printed(table, 40, **IN_COLOURS)
    text = Text("\u202e").append("RED", style="red").append("\x9b")
    assert printed(text, 40, **IN_COLOURS) == "\\u202e\x1b[31mRED\x1b[0m\\x9b\n"
    assert (
        printed("[red]a[/red] [link=http://e]b[/link] :bomb:", 40) == "[red]a[/red] [link=http://e]b[/link] \n:bomb:\n"
    )


def test_columns_keep_their_widths() -> None:
    table = Table()
    table.add_column("\x1b[2Jname", overflow="fold")
    table.add_column("what", overflow="fold")
    for name in ("\x1b]0;t\x07" * 2, "plain", Text("\u202e" * 4)):
        table.add_row(name, "x")
    lines = printed(table, 40).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "\\x1b[2J" in "".join(line.strip("┃ ") for line in lines)


CELLS = st.text(st.sampled_from("ab-@. 漢\n"), max_size=60)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=3), st.integers(20, 120))
def test_no_line_is_wider_than_the_terminal_and_no_word_that_fits_is_broken(
    rows: list[tuple[str, str, str]], width: int
) -> None:
    reported = printed(table_of(tuple(rows)), width)
    assert max(map(cell_len, reported.splitlines()), default=0) <= width
    short = {word for row in rows for cell in row for word in cell.split() if cell_len(word) <= width - 2}
    shown = set(re.sub(r"[│┃]", " ", reported).split())
    assert short <= shown
