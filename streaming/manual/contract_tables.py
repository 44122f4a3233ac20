"""Topics, events, Delta tables and views, from their contracts."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import types as T

from schemas.contract import CODES
from schemas.events import EVENTS, KEYS, MEANINGS
from schemas.fields import NEVER
from schemas.tables import TABLES, Table
from schemas.views import VIEWS
from streaming.manual.block import markdown_table


def topics_table() -> str:
    """Return each Kafka topic with its key and the meaning of a message."""
    rows = [(f"`{topic}`", ", ".join(f"`{name}`" for name in KEYS[topic]), MEANINGS[topic]) for topic in EVENTS]
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
    return "\n\n".join(f"### `{table.name}`\n\n{table.comment}\n\n{_columns(table)}" for table in TABLES.values())


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


def _columns(table: Table) -> str:
    rows = [
        (f"`{column.name}`", f"`{column.type.value}`", "" if column.is_required else "yes", column.comment)
        for column in table.columns
    ]
    return markdown_table(("column", "type", "may be null", "meaning"), rows)


def _fields(event: T.StructType, prefix: str) -> Iterator[tuple[str, ...]]:
    for field in event.fields:
        reported = field.metadata
        unit = ", ".join(filter(None, (reported["unit"], *_bounds(reported))))
        null = "" if reported["null"] == NEVER else reported["null"]
        yield f"`{prefix}{field.name}`", _type(field.dataType), unit, null, reported["comment"]
        if isinstance(field.dataType, T.ArrayType) and isinstance(field.dataType.elementType, T.StructType):
            yield from _fields(field.dataType.elementType, f"{prefix}{field.name}[].")


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
        return f"list of {_type(type_.elementType)}"
    return {"struct": "object", "bigint": "integer, 64 bits", "int": "integer, 32 bits"}.get(
        type_.simpleString().partition("<")[0], type_.simpleString()
    )


def _names(columns: tuple[str, ...]) -> str:
    return ", ".join(f"`{column}`" for column in columns)
