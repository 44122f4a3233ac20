"""The lines of ours that a runbook names within its text can be typed: every command, and every option of it."""

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from typer.main import get_command

from streaming.cli import app

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "udfs" / "alerts" / "runbooks").glob("*.md"))
LINE = re.compile(r"`balancewatch ([^`]+)`")


def lines() -> list[tuple[str, str]]:
    found = [(page.name, line.replace("\n", " ")) for page in PAGES for line in LINE.findall(page.read_text())]
    assert len(found) > 20
    return found


@pytest.mark.parametrize(("page", "line"), lines())
def test_a_line_that_a_runbook_names_is_understood(page: str, line: str) -> None:
    """What must be given besides may be left out there; what is there must be known."""
    words = shlex.split(re.sub(r"\s+", " ", line))
    command: Any = get_command(app)
    context = click.Context(command, info_name="balancewatch")
    while hasattr(command, "commands") and words and words[0] in command.commands:
        name = words.pop(0)
        command = command.commands[name]
        context = click.Context(command, parent=context, info_name=name)
    assert command.name != "balancewatch", page
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options, page
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    flags = {option for one in command.params if getattr(one, "is_flag", False) for option in one.opts}
    pairs = zip(words, ["", *words], strict=False)
    free = [word for word, before in pairs if not word.startswith("-") and (before in flags or before[:1] != "-")]
    assert len(free) <= len(arguments), page
