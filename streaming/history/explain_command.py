"""`balancewatch explain`: the history of an incident."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from schemas.tables import ALERTS, QUALITY, QUARANTINE, TABLES
from streaming.history.incident_story import (
    MOST_SHOWN,
    IncidentStory,
    Line,
    ends,
    lines_of,
    newest_incident,
    read_story,
    turning_points,
)
from streaming.history.query_options import parse_options
from streaming.history.table_question import open_history
from streaming.store.alerts import UnknownIncidentError, find_incident
from streaming.terminal.command import fail
from streaming.terminal.completion import complete_incident
from streaming.terminal.format_option import format_option
from streaming.terminal.printing import STATE_STYLES
from streaming.terminal.setting_options import Warehouse
from streaming.text.console import VisibleConsole
from streaming.text.output import write_json
from streaming.text.times import both_times, clock, iso, span_text, to_time
from streaming.text.visible_text import visible
from streaming.warehouse.warehouse_error import WarehouseError
from udfs.alerts.prose import count, join_words
from udfs.alerts.runbook import runbook_url
from udfs.alerts.static_labels import describe_labels

SHOWN = 12
"""Lines of each part, half from each end; JSON has up to MOST_SHOWN."""


def with_times(value: Any) -> Any:
    """Return the value with fields named `*_ms` as `*_at`, ISO 8601."""
    if isinstance(value, list | tuple):
        return [with_times(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, field in value.items():
        if name.endswith("_ms") and name != "latency_ms":
            key = "at" if name == "at_ms" else f"{name.removesuffix('_ms')}_at"
            found[key] = None if field is None else iso(field)
        else:
            found[name] = with_times(field)
    return found


def print_story(story: IncidentStory, runbook: str | None = None) -> None:
    """Print the head, the advice, then each part that is not empty, oldest first."""
    console = VisibleConsole()
    head = Text(story.state, style=STATE_STYLES.get(story.state, "")).append(f"  {story.kind}  {story.severity}")
    names = {
        "cluster": story.cluster,
        "group": story.consumer_group,
        "topic": story.topic,
        "broker": story.broker_name,
        "client": story.client_id,
    }
    subject = ", ".join(f"{name} {value}" for name, value in names.items() if value)
    console.print(head.append(visible(f"  {subject}")))
    for label, text in _facts(story, runbook):
        _print_indented(console, Text(visible(f"{label}: {text}")))
    parts = lines_of(story, lambda at_ms: _clock(at_ms, story.changed_ms))
    for name, title in _titles(story).items():
        if parts[name]:
            console.print(Text(f"\n{title}", style="bold"))
            always = turning_points(story.steps) if name == "steps" else ()
            _print_part(console, parts[name], story.left_out.get(name, 0), always)


def _print_part(console: Console, lines: Sequence[Line], left_out: int, always: Collection[int]) -> None:
    """Print the lines; omitted ones are marked, the first time with their number."""
    shown = ends(len(lines), SHOWN, always)
    days = {to_time(lines[number].at_ms).date() for number in shown}
    missing = len(lines) - len(shown) + left_out
    gap = f"  ... {missing} more{', at least' if left_out else ''}; -o json has up to {MOST_SHOWN}"
    before = -1
    for number in shown:
        if number > before + 1:
            console.print(gap)
            gap = "  ..."
        before = number
        at_ms, word, text = lines[number]
        day = f"{to_time(at_ms):%Y-%m-%d} " if len(days) > 1 else ""
        line = Text(f"{day}{_clock(at_ms, at_ms)}  ").append(
            f"{word}  " if word else "", style=STATE_STYLES.get(word, "")
        )
        _print_indented(console, line.append(visible(text)))
    if missing and gap != "  ...":
        console.print(gap)


def _print_indented(console: Console, text: Text) -> None:
    """Print the text with continuation lines indented deeper."""
    for number, line in enumerate(text.wrap(console, max(20, console.width - 6))):
        line.rstrip()
        console.print(Text("  " if number == 0 else "      ").append_text(line), soft_wrap=True)


def _clock(at_ms: int, near_ms: int) -> str:
    """Return the time, with its date on another day than `near_ms`, and the local time where it differs."""
    local = to_time(at_ms).astimezone()
    return clock(at_ms, near_ms) + (f" ({local:%H:%M:%S %Z})" if local.utcoffset() else "")


def _facts(story: IncidentStory, runbook: str | None) -> Iterator[tuple[str, str]]:
    end_ms = story.ended_ms if story.ended_ms is not None else story.changed_ms
    lasted = span_text(max(0, end_ms - story.started_ms) // 1000 * 1000)
    yield "incident", story.incident_id
    starved = "not consumed " if story.kind == "starved_queue" else ""
    if story.ended_ms is not None:
        yield f"{starved}from", f"{both_times(story.started_ms)} until {both_times(story.ended_ms)}, {lasted}"
    else:
        yield f"{starved}since", f"{both_times(story.started_ms)}; newest row {both_times(story.changed_ms)}"
    if story.verdict_since_ms is not None:
        yield "verdict certain since", both_times(story.verdict_since_ms)
    yield "fired", "never" if story.fired_ms is None else both_times(story.fired_ms)
    if story.cause and story.cause != story.kind:
        yield "cause", story.cause
    yield "what", story.summary
    yield "fix", story.advice
    if runbook:
        yield "runbook", runbook
    if story.static_labels:
        yield "labels", describe_labels(story.static_labels)
    if story.completeness is not None and story.completeness < 1:
        yield "completeness", f"{story.completeness:.0%} of the brokers and clients concerned"
    if story.flaps:
        yield "came back", count(story.flaps, "time") + (", kept open because it flaps" if story.is_flapping else "")
    if story.not_notified_reason:
        yield "not notified", story.not_notified_reason


def _titles(story: IncidentStory) -> dict[str, str]:
    where = ", UTC (local)" if to_time(story.started_ms).astimezone().utcoffset() else ", UTC"
    return {
        "steps": f"Steps{where}",
        "inhibitors": "Inhibited by",
        "inhibits": _effects(story),
        "members": f"Members, from two minutes before the start{where}",
        "queue_changes": f"Queue changes{where}",
        "health": f"Producers that avoid the broker{where}",
        "deliveries": f"Notifications{where}",
        "silences": f"Silences{where}",
        "acknowledgements": f"Acknowledged{where}",
    }


def _effects(story: IncidentStory) -> str:
    """Return the title: incidents that do not page, and those that paged before or after the inhibition."""

    def by_kind(numbers: Mapping[str, int]) -> str:
        return join_words([f"{number} {kind}" for kind, number in sorted(numbers.items()) if number] or ["none"])

    paged = story.paged_by_kind
    quiet = {kind: number - paged.get(kind, 0) for kind, number in story.inhibits_by_kind.items()}
    title = f"Inhibits, so these do not page: {by_kind(quiet)}"
    return f"{title}; these paged before or after: {by_kind(paged)}" if paged else title


def explain(
    incident: Annotated[
        str | None,
        typer.Argument(
            help="An incident_id or its prefix. Default: the incident that fired last.",
            metavar="INCIDENT",
            autocompletion=complete_incident,
        ),
    ] = None,
    format_: Annotated[str, format_option("table", "json", text="table (text) or json.")] = "table",
    warehouse: Warehouse = None,
) -> None:
    """Print the history of an incident: steps, members, queues, causes, effects and notifications.

    Times are UTC, with local time beside them where it differs.

    Example: balancewatch explain

    Example: balancewatch explain c87a8d88

    Example: balancewatch explain c87a8d8867cd0128-1795258351124 --format json | jq '.queue_changes[] | .queue'
    """
    options = parse_options(format_=format_, warehouse=warehouse)
    beside = [table for table in TABLES.values() if table not in (ALERTS, QUARANTINE, QUALITY)]
    try:
        history = open_history(options, ALERTS, *beside)
        incident_id = newest_incident(history) if incident is None else find_incident(history, incident)
        if incident_id is None:
            fail("the alerts table is empty: no incident to explain")
        story = read_story(history, incident_id, labels=options.labels)
    except (WarehouseError, UnknownIncidentError) as error:
        fail(str(error))
    runbook = runbook_url(options.runbooks_url, story.kind, story.cause)
    if options.format == "json":
        write_json({**with_times(asdict(story)), "runbook_url": runbook})
    else:
        print_story(story, runbook)
