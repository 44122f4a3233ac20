"""The commands, as their help tells of them."""

from typer.main import get_command

from streaming.cli import app
from streaming.manual.block import markdown_table


def commands_table() -> str:
    """Each command with the first sentence of its help; a command of commands with theirs."""
    rows = []
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]  # a group, for app has several
        first = (command.help or "").strip().split("\n\n")[0].replace("\n", " ")
        below = getattr(command, "commands", {})
        rows.append((f"`balancewatch {name}`", first + (f" ({', '.join(below)})" if below else "")))
    return markdown_table(("command", "what it does"), rows)
