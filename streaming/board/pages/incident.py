"""One incident and its story: what is wrong, the line that fixes it, why it was found, who was told, and when."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote

from dash import html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.attributes import aria, data
from streaming.board.drawing.incident_band import band
from streaming.board.pages.page import Page, View
from streaming.board.queries.incident_events import MOST_EVENTS, Event, events
from streaming.board.url.parameters import AskedError
from streaming.history.incident_story import UnknownIncidentError, find_incident, read_story
from streaming.history.story import IncidentStory, Related
from streaming.text.times import span
from udfs.alerts.prose import name_queues
from udfs.alerts.runbook import runbook_url

WHAT = {
    "incident": "▲",
    "members": "◆",
    "queues": "≡",
    "producers": "↗",
    "told": "✉",
    "people": "●",
}


@dataclass(frozen=True)
class IncidentPage:
    """All that the page shows: the story, its events oldest first, and until when the tables tell anything of it."""

    story: IncidentStory
    events: Sequence[Event]
    now_ms: int
    known_until_ms: int
    runbook_url: str | None


def read(view: View) -> IncidentPage:
    asked = view.asked.get("id")
    if not asked:
        raise AskedError("id is missing: an incident's page is /incident?id=..., and the alerts page links to each.")
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
            el.heading(story.kind, el.state(story.state), el.severity(story.severity), _lasting(story, now_ms)),
            _what(story, page.runbook_url),
            html.Div([_facts(story, now_ms), _explanations(story, now_ms)], className="two"),
            el.panel("states", "States", band(story, now_ms, page.known_until_ms), note=_flapping(story)),
            _story(page),
            _evidence(story),
            _commands(story),
        ],
        className="page",
    )


def _lasting(story: IncidentStory, now_ms: int) -> Component:
    if story.ended_ms is not None:
        text: list[el.Child] = [
            "lasted ",
            span(story.ended_ms - story.started_ms),
            ", over since ",
            el.age(story.ended_ms, now_ms),
        ]
    else:
        text = ["began ", el.age(story.started_ms, now_ms)]
    return html.Span(text, className="muted")


def _flapping(story: IncidentStory) -> str:
    if not story.flaps:
        return ""
    return f"came back {story.flaps} times" + ("; held open until it calms down" if story.is_flapping else "")


def _what(story: IncidentStory, runbook: str | None) -> Component:
    is_over = story.ended_ms is not None
    parts: list[el.Child] = [html.P(story.summary, className="lead")]
    if not is_over and story.inhibitors and story.steps[-1].inhibited_by:
        cause = story.inhibitors[0]
        why = el.link([cause.kind, " ", _subject(cause)], "/incident", id=cause.incident_id)
        parts.append(html.P([el.mark("⤷", "Explained by"), " ", why, ": mend that first, this does not page."]))
    parts.append(html.P([html.Strong("The advice was: " if is_over else "Fix: "), story.advice], className="advice"))
    if runbook is not None:
        page = html.A(f"Runbook: {story.kind}", href=runbook, id="runbook", **data(load="anew"))
        parts.append(html.P([page, ", what to look at, what to do, how to be sure that it is over."]))
    return html.Section(parts, className=f"panel severity-edge-{story.severity} what", **aria(label="What is wrong"))


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
    facts.append(("First sign", el.moment(story.started_ms, now_ms)))
    facts.append(("Fired", el.moment(story.fired_ms, now_ms) if story.fired_ms else "never"))
    if story.ended_ms is not None:
        facts.append(("Over", el.moment(story.ended_ms, now_ms)))
    if story.completeness is not None:
        facts.append(("Heard", f"{story.completeness:.0%} of the brokers and clients concerned"))
    facts.append(("Incident", el.code(story.incident_id)))
    items = [html.Div([html.Dt(name), html.Dd(value)]) for name, value in facts]
    return el.panel("facts", "Facts", html.Dl(items, className="facts"))


def _explanations(story: IncidentStory, now_ms: int) -> Component:
    parts: list[el.Child] = []
    if story.inhibitors:
        parts += [
            html.H3("Explained by"),
            html.Ul([_related(one, now_ms) for one in story.inhibitors], className="related"),
        ]
    if story.inhibits:
        counted = ", ".join(f"{count} {kind}" for kind, count in story.inhibits_by_kind.items())
        shown = story.inhibits[:10]
        parts += [
            html.H3(f"Explains {counted}"),
            html.Ul([_related(one, now_ms) for one in shown], className="related"),
        ]
        if len(story.inhibits) > len(shown):
            parts.append(html.P(f"and {len(story.inhibits) - len(shown)} more", className="muted"))
    if not parts:
        parts.append(el.empty("Nothing else explains it, and it explains nothing else."))
    reported = sum(one.outcome == "DELIVERED" for one in story.deliveries)
    said = (
        f"{reported} {'delivery' if reported == 1 else 'deliveries'}, in the story below."
        if reported
        else "Nobody was told."
    )
    if story.not_notified_reason:
        said = f"Nobody was told: {story.not_notified_reason}."
    parts += [html.H3("Told"), html.P(said)]
    return el.panel("explanations", "Cause and effects", *parts)


def _related(one: Related, now_ms: int) -> Component:
    return html.Li(
        [
            el.state(one.state),
            " ",
            el.link(one.kind, "/incident", id=one.incident_id),
            f" {_subject(one)}, since ",
            el.moment(one.started_ms, now_ms),
        ],
        id=f"related-{one.incident_id}",
    )


def _subject(one: Related) -> str:
    if one.consumer_group:
        return f"in group {one.consumer_group}" + (f", topic {one.topic}" if one.topic else "")
    return f"of {one.broker_name}" if one.broker_name else ""


def _story(page: IncidentPage) -> Component:
    newest = page.events[-MOST_EVENTS:]
    rows = [el.Row(key, _line(event, page.now_ms)) for key, event in _keyed(newest)]
    left_out = sum(page.story.left_out.values()) + len(page.events) - len(newest)
    note = f"{left_out} lines are left out; balancewatch sql has them" if left_out else "oldest first, UTC"
    columns = [el.Column("When", "narrow"), el.Column("What", "narrow"), el.Column("Happened", "wide")]
    return el.panel(
        "story", "IncidentStory", el.table("story-table", "What happened, step by step", columns, rows), note=note
    )


def _keyed(reported: Sequence[Event]) -> Iterator[tuple[str, Event]]:
    """Each with a key of its own that later events do not change."""
    seen: dict[str, int] = {}
    for event in reported:
        name = f"{event.at_ms}-{event.what}"
        seen[name] = seen.get(name, 0) + 1
        yield f"{name}-{seen[name]}", event


def _line(event: Event, now_ms: int) -> list[el.Children]:
    what = el.mark(WHAT[event.what], event.what)
    text: el.Children = event.text if event.state is None else [el.state(event.state), " ", event.text]
    return [el.moment(event.at_ms, now_ms), what, text]


def _evidence(story: IncidentStory) -> Component:
    if not story.evidence:
        return html.Div(id="evidence")
    items = [
        html.Div([html.Dt(name), html.Dd(el.code(_shown(value)))]) for name, value in sorted(story.evidence.items())
    ]
    details = html.Details([html.Summary("What the verdict rests on"), html.Dl(items, className="facts")])
    return html.Section(details, id="evidence", className="panel", **aria(label="Evidence"))


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 1_000 else text[:1_000] + " …"


def _commands(story: IncidentStory) -> Component:
    lines = [f"balancewatch explain {story.incident_id}"]
    if story.ended_ms is None:
        lines.append(f'balancewatch ack {story.incident_id} --owner YOU --note "what you do"')
        subject = [
            ("cluster", story.cluster),
            ("consumer_group", story.consumer_group),
            ("broker_name", story.broker_name),
        ]
        matches = [f"--match {name}={quote(value)}" for name, value in subject if value and "," not in value]
        what = " ".join([f"--match kind={story.kind}", *matches])
        lines.append(f'balancewatch silence add {what} --for 2h --owner YOU --reason "why"')
    return el.panel(
        "commands",
        "In a terminal",
        html.Pre("\n".join(lines), className="lines", tabIndex=0, **aria(label="Commands")),
    )


PAGE = Page(
    "incident",
    "/incident",
    "Incident",
    read,
    draw,
    parameters=frozenset({"id"}),
    tables=frozenset({"acknowledgements", "alert_deliveries", "alerts", "assignments", "memberships", "silences"}),
)
