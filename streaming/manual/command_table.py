"""README's table of commands, in the groups and with the summaries of `balancewatch --help`."""

from collections.abc import Iterator, Mapping
from typing import Any

from typer.main import get_command

from streaming.cli import GROUPS, Place, app
from streaming.manual.block import markdown_table


def commands_table() -> str:
    """Return a row for each group, with its commands one below the other."""
    rows = [(group, "<br>".join(_lines(places))) for group, places in GROUPS.items()]
    return markdown_table(("", "`balancewatch ...`"), rows)


def _lines(places: Mapping[str, Place]) -> Iterator[str]:
    """Yield each command with its summary and subcommands; subcommands of other rooms have a line themselves."""
    commands: Any = get_command(app)
    for name, place in places.items():
        below = () if place.below else getattr(commands.commands[name], "commands", ())
        names = f" ({', '.join(below)})" if below else ""
        yield f"`{name}`{names}: {place.summary}"
        for lower, of_lower in place.below.items():
            yield f"`{name} {lower}`: {of_lower.summary}"
