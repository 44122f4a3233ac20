"""`balancewatch explain`: the history of an incident."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from schemas.tables import ALERTS, QUALITY, QUARANTINE, TABLES
from streaming.history.incident_story import UnknownIncidentError, find_incident, newest_incident, read_story
from streaming.history.query_options import FORMAT, parse_options
from streaming.history.running import open_history
from streaming.history.story import (
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
    turning_points,
)
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


def print_story_json(story: IncidentStory, runbook: str | None = None) -> None:
    """Print one object; `*_ms` fields become `*_at`, ISO 8601."""
    write_json({**_times(asdict(story)), "runbook_url": runbook})


def _times(value: Any) -> Any:
    if isinstance(value, dict):
        return dict(_time(name, one) for name, one in value.items())
    return [_times(one) for one in value] if isinstance(value, list | tuple) else value


def _time(name: str, value: Any) -> tuple[str, Any]:
    if not name.endswith("_ms") or name == "latency_ms":
        return name, _times(value)
    return "at" if name == "at_ms" else f"{name.removesuffix('_ms')}_at", None if value is None else iso(value)


def print_story(story: IncidentStory, runbook: str | None = None) -> None:
    """Print the head, the advice, then each part that is not empty, oldest first."""
    console = VisibleConsole()
    head = Text(story.state, style=STATE_STYLES.get(story.state, "")).append(f"  {story.kind}  {story.severity}")
    console.print(head.append(visible(f"  {_subject(story)}")))
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
        _print_line(console, at_ms, word, text, with_day=len(days) > 1)
    if missing and gap != "  ...":
        console.print(gap)


def _print_line(console: Console, at_ms: int | None, word: str, text: str, *, with_day: bool) -> None:
    day = f"{to_time(at_ms):%Y-%m-%d} " if with_day and at_ms is not None else ""
    line = Text("" if at_ms is None else f"{day}{_clock(at_ms)}  ")
    line.append(f"{word}  " if word else "", style=STATE_STYLES.get(word, ""))
    _print_indented(console, line.append(visible(text)))


def _print_indented(console: Console, text: Text) -> None:
    """Print the text with continuation lines indented deeper."""
    for number, line in enumerate(text.wrap(console, max(20, console.width - 6))):
        line.rstrip()
        console.print(Text("  " if number == 0 else "      ").append_text(line), soft_wrap=True)


def _clock(at_ms: int) -> str:
    local = to_time(at_ms).astimezone()
    return f"{to_time(at_ms):%H:%M:%S}" + (f" ({local:%H:%M:%S %Z})" if local.utcoffset() else "")


def _subject(story: IncidentStory) -> str:
    parts = (
        ("cluster", story.cluster),
        ("group", story.consumer_group),
        ("topic", story.topic),
        ("broker", story.broker_name),
        ("client", story.client_id),
    )
    return ", ".join(f"{name} {value}" for name, value in parts if value)


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
    parts: tuple[tuple[str, str, list[Line]], ...] = (
        ("steps", f"Steps{where}", [_step(one) for one in story.steps]),
        ("inhibitors", "Inhibited by", [_related(one) for one in story.inhibitors]),
        ("inhibits", _effects(story), [_effect(one) for one in story.inhibits]),
        ("members", f"Members, from two minutes before the start{where}", [_member(one) for one in story.members]),
        ("queue_changes", f"Queue changes{where}", _queue_changes(story.queue_changes)),
        ("health", f"Producers that avoid the broker{where}", [_health(one) for one in story.health]),
        ("deliveries", f"Notifications{where}", [_notification(one) for one in story.deliveries]),
        ("silences", "Silences", [(None, one.silence_id, _quiet(one)) for one in story.silences]),
        (
            "acknowledgements",
            f"Acknowledged{where}",
            [(one.at_ms, one.acknowledged_by, one.note) for one in story.acknowledgements],
        ),
    )
    for name, title, lines in parts:
        yield title, lines, story.left_out.get(name, 0)


def _step(step: Step) -> Line:
    queues = f"; {name_queues(step.queues)}" if step.queues and step.state == "FIRING" else ""
    under = f" ({step.inhibited_by})" if step.inhibited_by and step.reason == "inhibited" else ""
    return step.at_ms, step.state, f"{step.why}{under}{queues}"


def _related(one: Related) -> Line:
    return one.started_ms, one.state, f"{one.incident_id} {one.kind}: {one.summary}"


def _effects(story: IncidentStory) -> str:
    """Return the title: incidents that do not page, and those that paged before or after the inhibition."""
    paged = story.paged_by_kind
    quiet = {kind: number - paged.get(kind, 0) for kind, number in story.inhibits_by_kind.items()}
    title = f"Inhibits, so these do not page: {_by_kind(quiet)}"
    return f"{title}; these paged before or after: {_by_kind(paged)}" if paged else title


def _by_kind(numbers: Mapping[str, int]) -> str:
    return join_words([f"{number} {kind}" for kind, number in sorted(numbers.items()) if number] or ["none"])


def _effect(one: Inhibited) -> Line:
    at_ms, state, text = _related(one)
    until_ms, paged_ms = one.inhibited_until_ms, one.paged_ms
    if paged_ms is not None and (until_ms is None or paged_ms < until_ms):
        until = "" if until_ms is None else f" until {_clock(until_ms)}"
        return (
            at_ms,
            state,
            f"{text} (paged {_clock(paged_ms)}; inhibited from {_clock(one.inhibited_since_ms)}{until})",
        )
    if until_ms is None or (state == "RESOLVED" and paged_ms is None):
        return at_ms, state, text
    since = "" if paged_ms is None else ", pages since" if paged_ms == until_ms else f", pages since {_clock(paged_ms)}"
    return at_ms, state, f"{text} (inhibited until {_clock(until_ms)}{since})"


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


def _notification(one: Delivery) -> Line:
    who = "no receiver" if one.receiver == "*" else one.receiver
    attempt = f", attempt {one.attempt}, {one.latency_ms} ms" if one.attempt else ""
    code = f", HTTP {one.code}" if one.code else ""
    reason = f": {one.reason}" if one.reason else ""
    route = f", route {one.route}" if one.route else ""
    return one.at_ms, one.outcome or "", f"{who} {one.status or ''}{attempt}{code}{route}{reason}"


def _quiet(one: CoveringSilence) -> str:
    span = f"{both_times(one.starts_ms)} until {both_times(one.ends_ms)}"
    return f"by {one.created_by}, {span} ({one.match}): {one.comment}"


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
    print_story_json(story, runbook) if options.format == "json" else print_story(story, runbook)
