"""The commands, as their help tells of them."""

from typing import Any

from typer.main import get_command

from streaming.cli import COMMANDS, app
from streaming.manual.block import markdown_table


def commands_table() -> str:
    """Each command with the first sentence of its help; a command of commands with their names, and one that other
    rooms add to it in a row of its own.
    """
    rows = []
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]  # a group, for app has several
        below = getattr(command, "commands", {})
        added = COMMANDS[name].below
        names = f" ({', '.join(below)})" if below and not added else ""
        rows.append((f"`balancewatch {name}`", _first(command) + names))
        rows += [(f"`balancewatch {name} {one}`", _first(below[one])) for one in added]
    return markdown_table(("command", "what it does"), rows)


def _first(command: Any) -> str:
    """Sentence of its help."""
    return (command.help or "").strip().split("\n\n")[0].replace("\n", " ")
