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
    CoveringSilence,
    Delivery,
    HealthChange,
    IncidentStory,
    Inhibited,
    MemberChange,
    QueueChange,
    Related,
    Step,
    ends,
    newest_incident,
    read_story,
    turning_points,
)
from streaming.history.query_options import FORMAT, parse_options
from streaming.history.table_question import open_history
from streaming.store.alerts import UnknownIncidentError, find_incident
from streaming.terminal.command import fail
from streaming.terminal.printing import STATE_STYLES
from streaming.terminal.setting_options import Warehouse
from streaming.text.console import VisibleConsole
from streaming.text.output import write_json
from streaming.text.times import both_times, iso, span_text, to_time
from streaming.text.visible_text import visible
from streaming.warehouse.warehouse_error import WarehouseError
from udfs.alerts.prose import count, join_words, name_queues
from udfs.alerts.runbook import runbook_url

SHOWN = 12
"""Lines of each part, half from each end; JSON has up to MOST_SHOWN."""

Line = tuple[int | None, str, str]
"""Time, a word, and the text."""


def _with_times(value: Any) -> Any:
    """Return the value with fields named `*_ms` as `*_at`, ISO 8601."""
    if isinstance(value, list | tuple):
        return [_with_times(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, field in value.items():
        if name.endswith("_ms") and name != "latency_ms":
            key = "at" if name == "at_ms" else f"{name.removesuffix('_ms')}_at"
            found[key] = None if field is None else iso(field)
        else:
            found[name] = _with_times(field)
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
    for title, lines, left_out in _parts(story):
        if lines:
            console.print(Text(f"\n{title}", style="bold"))
            _print_part(console, lines, left_out, turning_points(story.steps) if title.startswith("Steps") else ())


def _print_part(console: Console, lines: Sequence[Line], left_out: int, always: Collection[int]) -> None:
    """Print the lines; omitted ones are marked, the first time with their number."""
    shown = ends(len(lines), SHOWN, always)
    days = {to_time(at_ms).date() for at_ms, _, _ in (lines[number] for number in shown) if at_ms is not None}
    missing = len(lines) - len(shown) + left_out
    gap = f"  ... {missing} more{', at least' if left_out else ''}; --format json has up to {MOST_SHOWN}"
    before = -1
    for number in shown:
        if number > before + 1:
            console.print(gap)
            gap = "  ..."
        before = number
        at_ms, word, text = lines[number]
        day = f"{to_time(at_ms):%Y-%m-%d} " if len(days) > 1 and at_ms is not None else ""
        line = Text("" if at_ms is None else f"{day}{_clock(at_ms)}  ")
        line.append(f"{word}  " if word else "", style=STATE_STYLES.get(word, ""))
        _print_indented(console, line.append(visible(text)))
    if missing and gap != "  ...":
        console.print(gap)


def _print_indented(console: Console, text: Text) -> None:
    """Print the text with continuation lines indented deeper."""
    for number, line in enumerate(text.wrap(console, max(20, console.width - 6))):
        line.rstrip()
        console.print(Text("  " if number == 0 else "      ").append_text(line), soft_wrap=True)


def _clock(at_ms: int) -> str:
    local = to_time(at_ms).astimezone()
    return f"{to_time(at_ms):%H:%M:%S}" + (f" ({local:%H:%M:%S %Z})" if local.utcoffset() else "")


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
    if story.completeness is not None and story.completeness < 1:
        yield "completeness", f"{story.completeness:.0%} of the brokers and clients concerned"
    if story.flaps:
        yield "came back", count(story.flaps, "time") + (", kept open because it flaps" if story.is_flapping else "")
    if story.not_notified_reason:
        yield "not notified", story.not_notified_reason


def _parts(story: IncidentStory) -> Iterator[tuple[str, list[Line], int]]:
    """Yield title, lines, and the number of entries omitted from the story."""
    where = ", UTC (local)" if to_time(story.started_ms).astimezone().utcoffset() else ", UTC"
    acknowledgements: list[Line] = [(one.at_ms, one.acknowledged_by, one.note) for one in story.acknowledgements]
    parts: dict[str, tuple[str, list[Line]]] = {
        "steps": (f"Steps{where}", [*map(_step, story.steps)]),
        "inhibitors": ("Inhibited by", [*map(_related, story.inhibitors)]),
        "inhibits": (_effects(story), [*map(_effect, story.inhibits)]),
        "members": (f"Members, from two minutes before the start{where}", [*map(_member, story.members)]),
        "queue_changes": (f"Queue changes{where}", _queue_changes(story.queue_changes)),
        "health": (f"Producers that avoid the broker{where}", [*map(_health, story.health)]),
        "deliveries": (f"Notifications{where}", [*map(_notification, story.deliveries)]),
        "silences": ("Silences", [*map(_silence, story.silences)]),
        "acknowledgements": (f"Acknowledged{where}", acknowledgements),
    }
    for name, (title, lines) in parts.items():
        yield title, lines, story.left_out.get(name, 0)


def _step(step: Step) -> Line:
    queues = f"; {name_queues(step.queues)}" if step.queues and step.state == "FIRING" else ""
    under = f" ({step.inhibited_by})" if step.inhibited_by and step.reason == "inhibited" else ""
    return step.at_ms, step.state, f"{step.why}{under}{queues}"


def _related(incident: Related) -> Line:
    return incident.started_ms, incident.state, f"{incident.incident_id} {incident.kind}: {incident.summary}"


def _effects(story: IncidentStory) -> str:
    """Return the title: incidents that do not page, and those that paged before or after the inhibition."""

    def by_kind(numbers: Mapping[str, int]) -> str:
        return join_words([f"{number} {kind}" for kind, number in sorted(numbers.items()) if number] or ["none"])

    paged = story.paged_by_kind
    quiet = {kind: number - paged.get(kind, 0) for kind, number in story.inhibits_by_kind.items()}
    title = f"Inhibits, so these do not page: {by_kind(quiet)}"
    return f"{title}; these paged before or after: {by_kind(paged)}" if paged else title


def _effect(incident: Inhibited) -> Line:
    at_ms, state, text = _related(incident)
    until_ms, paged_ms = incident.inhibited_until_ms, incident.paged_ms
    if paged_ms is not None and (until_ms is None or paged_ms < until_ms):
        until = "" if until_ms is None else f" until {_clock(until_ms)}"
        text += f" (paged {_clock(paged_ms)}; inhibited from {_clock(incident.inhibited_since_ms)}{until})"
    elif until_ms is not None and (state != "RESOLVED" or paged_ms is not None):
        later = (
            "" if paged_ms is None else ", pages since" if paged_ms == until_ms else f", pages since {_clock(paged_ms)}"
        )
        text += f" (inhibited until {_clock(until_ms)}{later})"
    return at_ms, state, text


def _member(change: MemberChange) -> Line:
    views = join_words([f"{broker_name} ({addr})" for broker_name, addr in change.channels])
    runs = " ".join(filter(None, (change.client_version, change.strategy)))
    return change.at_ms, change.change, f"{change.client_id} at {views}" + (f", {runs}" if runs else "")


def _queue_changes(queue_changes: Sequence[QueueChange]) -> list[Line]:
    """Return the changes; equal changes of one topic at one time are one line."""
    alike: dict[tuple[Any, ...], list[str]] = {}
    for move in queue_changes:
        alike.setdefault((move.at_ms, move.topic, *_what_moved(move)), []).append(move.queue)
    return [
        (at_ms, "", f"{topic} {name_queues(queues)} {verdict}: {planned}; {pulled}")
        for (at_ms, topic, verdict, planned, pulled), queues in alike.items()
    ]


def _what_moved(move: QueueChange) -> tuple[str, str, str]:
    """Return verdict, planned owner and consumers, each with its value before where that differs."""
    if move.verdict_before is None:
        return move.verdict, f"planned owner {_who(move.planned_owner)}", f"consumed by {_who(*move.observed_owners)}"
    pairs = (
        (_who(move.planned_before), _who(move.planned_owner)),
        (_who(*(move.observed_before or ())), _who(*move.observed_owners)),
    )
    planned, pulled = (after if before == after else f"{before} → {after}" for before, after in pairs)
    verdict = move.verdict if move.verdict == move.verdict_before else f"{move.verdict_before} → {move.verdict}"
    return verdict, f"planned owner {planned}", f"consumed by {pulled}"


def _who(*clients: str | None) -> str:
    return join_words([client for client in clients if client] or ["none"])


def _health(change: HealthChange) -> Line:
    until = f", until {_clock(change.until_ms)}" if change.until_ms is not None else ""
    avoiding = f"{change.unavailable_producers} of {change.producers} producers"
    return change.at_ms, change.broker_name, f"{avoiding}{until}"


def _notification(delivery: Delivery) -> Line:
    who = "no receiver" if delivery.receiver == "*" else delivery.receiver
    attempt = f", attempt {delivery.attempt}, {delivery.latency_ms} ms" if delivery.attempt else ""
    code = f", HTTP {delivery.code}" if delivery.code else ""
    reason = f": {delivery.reason}" if delivery.reason else ""
    route = f", route {delivery.route}" if delivery.route else ""
    return delivery.at_ms, delivery.outcome or "", f"{who} {delivery.status or ''}{attempt}{code}{route}{reason}"


def _silence(silence: CoveringSilence) -> Line:
    span = f"{both_times(silence.starts_ms)} until {both_times(silence.ends_ms)}"
    return None, silence.silence_id, f"by {silence.created_by}, {span} ({silence.match}): {silence.comment}"


def explain(
    incident: Annotated[
        str | None,
        typer.Argument(help="An incident_id or its prefix. Default: the incident that fired last.", metavar="INCIDENT"),
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="table (text) or json.", metavar=FORMAT)] = "table",
    warehouse: Warehouse = None,
) -> None:
    """Print the history of an incident: steps, members, queues, causes, effects and notifications.

    Times are UTC, with local time beside them where it differs.

    Example: balancewatch explain

    Example: balancewatch explain c87a8d88

    Example: balancewatch explain c87a8d8867cd0128-1795258351124 --format json | jq '.queue_changes[] | .queue'
    """
    options = parse_options(format_=format_, formats=("table", "json"), warehouse=warehouse)
    beside = [table for table in TABLES.values() if table not in (ALERTS, QUARANTINE, QUALITY)]
    try:
        history = open_history(options, ALERTS, *beside)
        incident_id = newest_incident(history) if incident is None else find_incident(history, incident)
        if incident_id is None:
            fail("the alerts table is empty: no incident to explain")
        story = read_story(history, incident_id)
    except (WarehouseError, UnknownIncidentError) as error:
        fail(str(error))
    runbook = runbook_url(options.runbooks_url, story.kind, story.cause)
    if options.format == "json":
        write_json({**_with_times(asdict(story)), "runbook_url": runbook})
    else:
        print_story(story, runbook)
