"""The generated tables: commands, settings, topics, events, Delta tables and views, from their sources."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.main import get_command

from conf.settings import DEFAULTS
from schemas import types as T
from schemas.contract import CODES
from schemas.events import EVENTS, KEYS, MEANINGS, NEVER
from schemas.tables import TABLES
from schemas.views import VIEWS
from streaming.cli import GROUPS, Place, app
from tests.manual.block import markdown_table


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


_SECTION = re.compile(r"\[{1,2}(?P<name>[\w.]+)\]{1,2}")
_KEY = re.compile(r'(?P<name>[\w."*]+) = (?P<value>(?:"[^"]*"|[^"#])+?)\s*(?:#\s*(?P<beside>.*))?')
"""A key, its value and the comment beside it; a # within quotes is part of the value."""


@dataclass(frozen=True)
class Key:
    """One key of the defaults' file: its section, its value in TOML, and its comment."""

    section: str
    name: str
    value: str
    comment: str

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}" if self.section else self.name


def read_keys(path: Path = DEFAULTS) -> list[Key]:
    """Return every key in the file's order.

    A comment belongs to the keys below it, up to an empty line or the next comment. A comment above `[[..]]` belongs to
    the keys in that table.
    """
    keys = []
    section, said, is_fresh = "", "", True
    for line in map(str.strip, path.read_text().splitlines()):
        if header := _SECTION.fullmatch(line):
            section, is_fresh = header["name"], True
            said = said if line.startswith("[[") else ""
        elif line.startswith("#"):
            text = line.lstrip("# ")
            said, is_fresh = (text if is_fresh else f"{said} {text}"), False
        elif not line:
            said, is_fresh = "", True
        elif key := _KEY.fullmatch(line):
            keys.append(Key(section, key["name"], key["value"], key["beside"] or said))
            is_fresh = True
    return keys


def settings_table() -> str:
    """Return key, default and meaning of each setting."""
    rows = [(f"`{key.path}`", f"`{key.value}`", key.comment) for key in read_keys()]
    return markdown_table(("key", "default", "meaning"), rows)


def topics_table() -> str:
    """Return each Kafka topic with its key and the meaning of a message."""
    rows = [(f"`{topic}`", _names(KEYS[topic]), MEANINGS[topic]) for topic in EVENTS]
    return markdown_table(("topic", "key, joined by a bar", "event"), rows)


def fields_tables() -> str:
    """Return each event's fields; those of a list of objects follow the list."""
    return "\n\n".join(
        f"### `{topic}`\n\n{MEANINGS[topic].capitalize()}.\n\n"
        + markdown_table(("field", "type", "unit", "null or absent means", "meaning"), _fields(event, ""))
        for topic, event in EVENTS.items()
    )


def tables_table() -> str:
    """Return each Delta table with the meaning of a row, its key and its time."""
    rows = [(f"`{table.name}`", table.comment, _names(table.key), f"`{table.time}`") for table in TABLES.values()]
    return markdown_table(("table", "row", "key", "time"), rows)


def columns_tables() -> str:
    """Return each table's columns."""
    return "\n\n".join(
        f"### `{table.name}`\n\n{table.comment}\n\n"
        + markdown_table(
            ("column", "type", "may be null", "meaning"),
            [
                (f"`{column.name}`", f"`{column.type.value}`", "" if column.is_required else "yes", column.comment)
                for column in table.columns
            ],
        )
        for table in TABLES.values()
    )


def views_table() -> str:
    """Return the views on the tables, in Spark and in DuckDB."""
    every = [
        ("`<table>`", "every transition"),
        ("`<table>_now`", "the newest row of each key"),
        ("`<table>_at(moment)`", "the newest row of each key at a time"),
    ]
    return markdown_table(("view", "rows"), [*every, *((f"`{view.name}`", view.comment) for view in VIEWS.values())])


def reasons_list() -> str:
    """Return the reason codes of the quarantine."""
    return ", ".join(f"`{code}`" for code in CODES)


def _fields(event: T.StructType, prefix: str) -> Iterator[tuple[str, ...]]:
    for field in event.fields:
        reported = field.metadata
        unit = ", ".join(filter(None, (reported["unit"], *_bounds(reported))))
        null = "" if reported["null"] == NEVER else reported["null"]
        yield f"`{prefix}{field.name}`", _type(field.data_type), unit, null, reported["comment"]
        if isinstance(field.data_type, T.ArrayType) and isinstance(field.data_type.element_type, T.StructType):
            yield from _fields(field.data_type.element_type, f"{prefix}{field.name}[].")


def _bounds(reported: dict[str, Any]) -> Iterator[str]:
    """Yield the bounds that a field's contract states."""
    if "minimum" in reported:
        yield f"from {reported['minimum']}"
    if "maximum" in reported:
        yield f"to {reported['maximum']}"
    if "max_length" in reported:
        yield f"at most {reported['max_length']:,} characters"
    if "max_items" in reported:
        yield f"at most {reported['max_items']:,}"


def _type(type_: T.DataType) -> str:
    if isinstance(type_, T.ArrayType):
        return f"list of {_type(type_.element_type)}"
    return TYPES[type(type_)]


TYPES = {
    T.StructType: "object",
    T.LongType: "integer, 64 bits",
    T.IntegerType: "integer, 32 bits",
    T.StringType: "string",
    T.BooleanType: "boolean",
}


def _names(columns: Iterable[str]) -> str:
    return ", ".join(f"`{column}`" for column in columns)
