"""Output of `balancewatch check` and `balancewatch alerts rules`: tables or JSON."""

from typing import Any

from rich.table import Table
from rich.text import Text

from streaming.text.console import VisibleConsole
from streaming.text.output import write_json


def print_json(answer: dict[str, Any]) -> None:
    write_json(answer, default=str)


def print_settings(answer: dict[str, Any]) -> None:
    """Print all keys in force, then each override."""
    console = VisibleConsole()
    console.print(_keys(answer["keys"]))
    for override in answer["overrides"]:
        where = f"cluster {override['cluster']}, consumer_group {override['consumer_group']}"
        console.print(Text(f"override {override['name']!r}: {where}"))
        for key, value in override["sets"].items():
            console.print(Text(f"  {key} = {_describe(value)}"))
    console.print(Text(f"receivers: {', '.join(answer['receivers'])}; routes: {', '.join(answer['routes'])}"))
    for mute in answer["mutes"]:
        console.print(Text(f"mute {_describe_mute(mute)}"))
    for warning in answer["warnings"]:
        console.print(Text(f"warning: {warning}"))
    console.print(Text("The settings are valid."))


def print_answer(answer: dict[str, Any]) -> None:
    """Print the explanation of an alert, then the keys that decide it."""
    console = VisibleConsole()
    table = Table(show_header=False, show_lines=True)
    table.add_column("question", no_wrap=True)
    table.add_column("answer", overflow="fold")
    for question, text in _lines(answer):
        table.add_row(Text(question), Text(text))
    console.print(table)
    console.print(_keys(answer["keys"]))


def _lines(answer: dict[str, Any]) -> list[tuple[str, str]]:
    subject = answer["subject"]
    lines = [("alert", " ".join(f"{name}={value}" for name, value in subject.items()))]
    if incident := answer["incident"]:
        now = f"{incident['state']} since {incident['changed_at']}, started at {incident['started_at']}"
        lines.append(("now", f"{now}\n{incident['summary']}"))
    receivers = "\n".join(
        f"{one['severity']}: {one['receiver']}, route {one['route']!r}" for one in answer["receivers"]
    )
    silences = "\n".join(
        f"{one['severity']}: {one['silence_id']} by {one['created_by']} until {one['until']} ({one['matchers']}): "
        f"{one['comment']}"
        for one in answer["silences"]
    )
    mutes = "\n".join(f"{mute['severity']}: {_describe_mute(mute)}" for mute in answer["mutes"])
    if means := answer.get("means"):
        lines.append(("means", means))
    reaches = "\n".join(filter(None, (answer.get("reaches"), receivers)))
    return [
        *lines,
        ("fires", answer["fires"]),
        ("ends", answer["ends"]),
        ("severity", " or ".join(answer["severities"])),
        ("receivers", reaches or "none: no route matches"),
        ("silenced", silences or "no active silence matches"),
        ("muted", mutes or "no mute matches"),
        ("inhibited by", _describe_explained(answer["inhibited_by"])),
        ("runbook", answer["runbook_url"] or "none"),
    ]


def _describe_mute(mute: dict[str, Any]) -> str:
    """Return the mute with its open or next window as text."""
    when = f"open until {mute['until']}" if mute["is_open"] else f"next from {mute['from']} until {mute['until']}"
    return f"{mute['name']!r} ({mute['matchers']}), {mute['windows']}: {when}"


def _describe_explained(explained: dict[str, Any]) -> str:
    if explained["is"]:
        return f"{explained['is']}, so it does not page: {explained['summary'] or 'the table has no row of it'}"
    kinds = ", ".join(explained["kinds"])
    if not kinds:
        return "no kind"
    if not explained["may_be"]:
        return f"no open incident; possible kinds: {kinds}"
    may = "\n".join(f"{one['incident_id']} ({one['kind']}): {one['summary']}" for one in explained["may_be"])
    return f"possibly, then it does not page:\n{may}"


def _keys(keys: list[dict[str, Any]]) -> Table:
    table = Table()
    table.add_column("key", overflow="fold")
    table.add_column("value", justify="right", overflow="fold")
    table.add_column("set by", overflow="fold")
    for row in keys:
        table.add_row(Text(row["key"]), Text(_describe(row["value"])), Text(row["set_by"]))
    return table


def _describe(value: Any) -> str:
    """Return the value as in TOML; an empty severity means the rule's."""
    if isinstance(value, bool):
        return str(value).lower()
    return "the rule's" if value in (None, "") else str(value)
