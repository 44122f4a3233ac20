"""The generated parts of the pages are up to date: settings, topics, tables, commands and findings."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from conf.settings import DEFAULTS
from streaming.cli import COMMANDS
from tests.manual.__main__ import BLOCKS, PAGES, ROOT, main, stale_pages
from tests.manual.runbook_facts import findings_table
from tests.manual.tables import commands_table, read_keys
from tests.support.markdown import blocks_of, commands_of
from tests.support.offenders import assert_none
from udfs.alerts.runbook import CAUSES


def names_in(section: str, keys: dict[str, Any]) -> set[str]:
    """Return `section.key` of each key; a table or a list of tables with its own header gives its keys."""
    names: set[str] = set()
    text = DEFAULTS.read_text()
    for name, value in keys.items():
        path = f"{section}.{name}" if section else name
        tables = value if isinstance(value, list) else [value]
        if f"\n[{path}]\n" in text or f"\n[[{path}]]\n" in text:
            for table in tables:
                names |= names_in(path, table)
        else:
            names.add(path)
    return names


def test_no_page_is_stale() -> None:
    """`make docs` would change nothing."""
    assert not [str(path.relative_to(ROOT)) for path in stale_pages()]


def test_a_check_names_the_stale_page_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["tests.manual", "--check"])
    main()
    monkeypatch.setitem(BLOCKS, "commands", lambda: "another")
    with pytest.raises(SystemExit, match="run `make docs`"):
        main()
    assert capsys.readouterr().out == "stale: README.md\n"


def test_each_block_stands_on_a_page() -> None:
    text = "".join((ROOT / page).read_text() for page in PAGES)
    assert not [name for name in BLOCKS if f"<!-- generated: {name} -->" not in text]


def test_the_table_of_settings_has_every_key_of_the_defaults_with_a_comment() -> None:
    keys = read_keys()
    assert {key.path.replace('"', "") for key in keys} == names_in("", tomllib.loads(DEFAULTS.read_text()))
    assert not [key.path for key in keys if not key.comment]


def test_a_comment_belongs_to_the_keys_below_it_or_to_the_one_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "some.toml"
    file.write_text(
        "# The file.\n\n[one]\n# Two keys,\n# one comment.\na = 1\nb = 2\n# Of c alone.\nc = '3'\n\n"
        'd = "x # no comment"  # beside\n\n# Of both.\n[[one.two]]\n"*" = { e = 1 }\nf = 2\n'
    )
    assert [(key.section, key.name, key.value, key.comment) for key in read_keys(file)] == [
        ("one", "a", "1", "Two keys, one comment."),
        ("one", "b", "2", "Two keys, one comment."),
        ("one", "c", "'3'", "Of c alone."),
        ("one", "d", '"x # no comment"', "beside"),
        ("one.two", '"*"', "{ e = 1 }", "Of both."),
        ("one.two", "f", "2", "Of both."),
    ]


def test_the_readme_is_short_and_its_commands_only_read_from_rocketmq() -> None:
    readme = ROOT / "README.md"
    assert len(readme.read_text().splitlines()) <= 170
    commands = [command for block in blocks_of(readme, "console") for command in commands_of(block)]
    assert any(command.startswith("balancewatch collect") for command in commands)
    assert not [command for command in commands if "--probe" in command]  # which creates a topic and sends messages


def test_the_table_of_findings_has_every_kind_once() -> None:
    table = findings_table()
    assert_none(kind for kind in CAUSES if table.count(f"[`{kind}`]") != 1)
    assert_none(line for line in table.splitlines()[2:] if not line.split("|")[3].strip())


def test_the_table_of_commands_has_every_command_once() -> None:
    lines = re.findall(r"`([a-z]+)`[^:<]*: ", commands_table())
    assert sorted(lines) == sorted(COMMANDS)
