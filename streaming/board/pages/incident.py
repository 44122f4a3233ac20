"""The incident page: what is wrong, the fix, cause and effects, notifications, and the story over time."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote

from dash import html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.attributes import aria, data
from streaming.board.drawing.counts import counted
from streaming.board.drawing.incident_band import band
from streaming.board.drawing.since import began_words
from streaming.board.pages.page import Page, View
from streaming.board.queries.incident_events import MOST_EVENTS, Event, events
from streaming.board.url.parameters import AskedError
from streaming.history.incident_story import UnknownIncidentError, find_incident, read_story
from streaming.history.story import CoveringSilence, IncidentStory, Related
from streaming.text.times import span
from udfs.alerts.prose import name_queues
from udfs.alerts.runbook import runbook_url

SHAPES = {
    "incident": "▲",
    "members": "◆",
    "queues": "≡",
    "producers": "↗",
    "notification": "✉",
    "operator": "●",
}
"""Shape of each type of event."""


@dataclass(frozen=True)
class IncidentPage:
    """Values of the page: the story, its events oldest first, and the end of the data."""

    story: IncidentStory
    events: Sequence[Event]
    now_ms: int
    known_until_ms: int
    runbook_url: str | None


def read(view: View) -> IncidentPage:
    asked = view.asked.get("id")
    if not asked:
        raise AskedError("id is missing: open an incident from the alerts page, or give /incident?id=ID.")
    try:
        story = read_story(view.history, find_incident(view.history, asked))
    except UnknownIncidentError as error:
        raise AskedError(f"{error}.".replace("INCIDENT ", "id = ", 1)) from None
    runbook = runbook_url(view.runbooks_url, story.kind, story.cause)
    return IncidentPage(story, events(story, view.now_ms), view.now_ms, view.known_until_ms, runbook)


def draw(page: IncidentPage) -> Component:
    story, now_ms = page.story, page.now_ms
    return html.Div(
        [
            el.heading(
                story.kind,
                el.state(story.state),
                el.severity(story.severity),
                _duration(story, now_ms),
                *_attention(story, now_ms),
            ),
            _what(story, page.runbook_url),
            html.Div([_facts(story, now_ms), _explanations(story, now_ms)], className="two"),
            el.panel("states", "States over time", band(story, now_ms, page.known_until_ms), note=_flapping(story)),
            _story(page),
            _evidence(story),
            _commands(story, now_ms),
        ],
        className="page",
    )


def _duration(story: IncidentStory, now_ms: int) -> Component:
    text: list[el.Child] = ["began ", el.age(story.started_ms, now_ms)]
    if story.ended_ms is not None:
        text = ["resolved ", el.age(story.ended_ms, now_ms), f" after {span(story.ended_ms - story.started_ms)}"]
    return html.Span(text, className="muted")


def _attention(story: IncidentStory, now_ms: int) -> list[Component]:
    """Return who acknowledged the open incident last, and until when it is silenced."""
    if story.ended_ms is not None:
        return []
    marks: list[Component] = []
    if story.acknowledgements:
        marks.append(el.mark("●", f"acknowledged by {story.acknowledgements[-1].acknowledged_by}"))
    if active := _active_silences(story, now_ms):
        ends_ms = max(silence.ends_ms for silence in active)
        marks.append(html.Span([el.mark("◌", "silenced"), " until ", el.moment(ends_ms, now_ms)]))
    return marks


def _active_silences(story: IncidentStory, now_ms: int) -> list[CoveringSilence]:
    return [silence for silence in story.silences if silence.starts_ms <= now_ms < silence.ends_ms]


def _flapping(story: IncidentStory) -> str:
    if not story.flaps:
        return ""
    return f"reopened {counted(story.flaps, 'time')}" + ("; kept open while it flaps" if story.is_flapping else "")


def _what(story: IncidentStory, runbook: str | None) -> Component:
    is_over = story.ended_ms is not None
    parts: list[el.Child] = [html.P(story.summary, className="lead")]
    if not is_over and story.inhibitors and story.steps[-1].inhibited_by:
        cause = story.inhibitors[0]
        why = el.link([cause.kind, " ", _subject(cause)], "/incident", id=cause.incident_id)
        parts.append(
            html.P([el.mark("⤷", "Inhibited by"), " ", why, ". Fix that first; this incident sends no notification."])
        )
    parts.append(html.P([html.Strong("Advice while open: " if is_over else "Fix: "), story.advice], className="advice"))
    if runbook is not None:
        page = html.A(f"Runbook: {story.kind}", href=runbook, id="runbook", **data(load="anew"))
        parts.append(html.P([page, ": checks, fix, and how to confirm that it is resolved."]))
    return html.Section(parts, className=f"panel severity-edge-{story.severity} what", **aria(label="Summary and fix"))


def _facts(story: IncidentStory, now_ms: int) -> Component:
    facts: list[tuple[str, el.Children]] = [
        ("Cluster", el.link(story.cluster, "/groups", cluster=story.cluster)),
    ]
    if story.consumer_group:
        link = el.link(
            story.consumer_group, "/group", cluster=story.cluster, group=story.consumer_group, topic=story.topic
        )
        facts.append(("Group", link))
    if story.topic:
        facts.append(("Topic", story.topic))
    if story.broker_name:
        brokers = story.broker_name.replace(",", ", ")
        facts.append(("Broker", el.link(brokers, "/brokers", cluster=story.cluster)))
    if story.client_id:
        facts.append(("ClientId", el.code(story.client_id)))
    if story.queues:
        facts.append((f"Queues ({len(story.queues)})", el.code(name_queues(story.queues))))
    if story.cause and story.cause != story.kind:
        facts.append(("Cause", story.cause))
    facts.append((began_words(story.kind).capitalize(), el.moment(story.started_ms, now_ms)))
    facts.append(("Fired", el.moment(story.fired_ms, now_ms) if story.fired_ms else "never"))
    if story.ended_ms is not None:
        facts.append(("Resolved", el.moment(story.ended_ms, now_ms)))
    if story.completeness is not None:
        facts.append(("Completeness", f"{story.completeness:.0%} of the expected data of its brokers and clients"))
    facts.append(("Incident ID", el.code(story.incident_id)))
    items = [html.Div([html.Dt(name), html.Dd(value)]) for name, value in facts]
    return el.panel("facts", "Facts", html.Dl(items, className="facts"))


def _explanations(story: IncidentStory, now_ms: int) -> Component:
    parts: list[el.Child] = []
    if story.inhibitors:
        parts += [
            html.H3("Inhibited by"),
            html.Ul([_related(one, now_ms) for one in story.inhibitors], className="related"),
        ]
    if story.inhibits:
        kinds = ", ".join(f"{count} {kind}" for kind, count in story.inhibits_by_kind.items())
        shown = story.inhibits[:10]
        parts += [
            html.H3(f"Inhibits {kinds}"),
            html.Ul([_related(one, now_ms) for one in shown], className="related"),
        ]
        if len(story.inhibits) > len(shown):
            parts.append(html.P(f"and {len(story.inhibits) - len(shown)} more", className="muted"))
    if not parts:
        parts.append(el.empty("No cause and no effects among the other incidents."))
    delivered = sum(delivery.outcome == "DELIVERED" for delivery in story.deliveries)
    sent = (
        f"{counted(delivered, 'notification')} delivered; the story below has details." if delivered else "None sent."
    )
    if story.not_notified_reason:
        sent = f"None sent: {story.not_notified_reason}."
    parts += [html.H3("Notifications"), html.P(sent)]
    return el.panel("explanations", "Cause and effects", *parts)


def _related(incident: Related, now_ms: int) -> Component:
    return html.Li(
        [
            el.state(incident.state),
            " ",
            el.link(incident.kind, "/incident", id=incident.incident_id),
            f" {_subject(incident)}, {began_words(incident.kind)} ",
            el.moment(incident.started_ms, now_ms),
        ],
        id=f"related-{incident.incident_id}",
    )


def _subject(incident: Related) -> str:
    if incident.consumer_group:
        return f"in group {incident.consumer_group}" + (f", topic {incident.topic}" if incident.topic else "")
    return f"of {incident.broker_name}" if incident.broker_name else ""


def _story(page: IncidentPage) -> Component:
    newest = page.events[-MOST_EVENTS:]
    rows = [el.Row(key, _line(event, page.now_ms)) for key, event in _keyed(newest)]
    left_out = sum(page.story.left_out.values()) + len(page.events) - len(newest)
    note = f"{counted(left_out, 'more event')} in balancewatch sql" if left_out else "oldest first, UTC"
    columns = [el.Column("Time", "narrow"), el.Column("About", "narrow"), el.Column("Event", "wide")]
    return el.panel("story", "Story", el.table("story-table", "Story", columns, rows), note=note)


def _keyed(reported: Sequence[Event]) -> Iterator[tuple[str, Event]]:
    """Yield each event with a key that later events do not change."""
    seen: dict[str, int] = {}
    for event in reported:
        name = f"{event.at_ms}-{event.about}"
        seen[name] = seen.get(name, 0) + 1
        yield f"{name}-{seen[name]}", event


def _line(event: Event, now_ms: int) -> list[el.Children]:
    about = el.mark(SHAPES[event.about], event.about)
    text: el.Children = event.text if event.state is None else [el.state(event.state), " ", event.text]
    return [el.moment(event.at_ms, now_ms), about, text]


def _evidence(story: IncidentStory) -> Component:
    if not story.evidence:
        return html.Div(id="evidence")
    items = [
        html.Div([html.Dt(name), html.Dd(el.code(_shown(value)))]) for name, value in sorted(story.evidence.items())
    ]
    details = html.Details([html.Summary("Evidence"), html.Dl(items, className="facts")])
    return html.Section(details, id="evidence", className="panel", **aria(label="Evidence"))


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 1_000 else text[:1_000] + " …"


def _commands(story: IncidentStory, now_ms: int) -> Component:
    """Return the commands that make sense now: `ack` and `silence add` only once each."""
    lines = [f"balancewatch explain {story.incident_id}"]
    active = _active_silences(story, now_ms)
    if story.ended_ms is None and not story.acknowledgements:
        lines.append(f'balancewatch ack {story.incident_id} --owner YOU --note "what you do"')
    if story.ended_ms is None and active:
        lines += [f"balancewatch silence end {silence.silence_id}" for silence in active]
    elif story.ended_ms is None:
        subject = [
            ("cluster", story.cluster),
            ("consumer_group", story.consumer_group),
            ("broker_name", story.broker_name),
        ]
        matches = [f"--match {name}={quote(value)}" for name, value in subject if value and "," not in value]
        matchers = " ".join([f"--match kind={story.kind}", *matches])
        lines.append(f'balancewatch silence add {matchers} --for 2h --owner YOU --reason "why"')
    return el.panel(
        "commands",
        "Commands",
        html.Pre("\n".join(lines), className="lines", tabIndex=0, **aria(label="Commands")),
    )


PAGE = Page(
    "incident",
    "/incident",
    "Incident",
    read,
    draw,
    parameters=frozenset({"id"}),
    back=("All alerts", "/alerts"),
    tables=frozenset({"acknowledgements", "alert_deliveries", "alerts", "assignments", "memberships", "silences"}),
)
