"""The group page: counts of verdicts, open incidents, the matrix of queues by clients, and the members."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.counts import counted
from streaming.board.drawing.matrix_table import legend, matrix_table
from streaming.board.drawing.member_table import describe_members, member_table
from streaming.board.drawing.page_links import describe_slice, page_links
from streaming.board.drawing.since import began_words
from streaming.board.drawing.verdicts import verdict_mark
from streaming.board.pages.page import Page, View
from streaming.board.queries.group import MOST_INCIDENTS, Group, OpenIncident, Queue, is_alerted_topic, read_group
from streaming.board.queries.queue_matrix import Matrix, build_matrix, count_verdicts, order_queues
from streaming.board.queries.verdict_order import WORST_FIRST, WRONG, worst_first
from streaming.board.url.moment import read_moment_ms
from streaming.board.url.parameters import AskedError, href, read_choice
from streaming.board.url.slices import Slice, slice_of
from streaming.text.times import ago, iso

QUEUES_A_PAGE = 100
MOST_IN_ORDER = 64
"""Up to this number, queues are in the order in which the strategy assigns them; above it, worst first."""

MOST_BROKERS = 20


@dataclass(frozen=True)
class GroupPage:
    """Values of the page. `asked` are the URL's parameters; the filters are `topic` ("" for all), `verdict`, `broker`
    and `order`.

    bare_topic  a topic of the URL that only alerts name
    of_topic    counts of the topic's queues by verdict; `brokers` are their brokers
    shown       the requested page of the chosen queues, `matrix` these by client
    """

    asked: Mapping[str, str]
    group: Group
    topic: str
    bare_topic: str
    of_topic: Counter[str]
    brokers: Sequence[str]
    verdict: str
    broker: str
    order: str
    shown: Slice[Queue]
    matrix: Matrix
    now_ms: int


def read(view: View) -> GroupPage:
    asked = view.asked
    if not asked.get("group"):
        raise AskedError("group is missing: give a consumer group, as in /group?group=billing.")
    at_ms = read_moment_ms(asked, "at", view.now_ms)
    group = read_group(view.history, asked.get("cluster"), asked["group"], at_ms)
    topics, topic = group.topics(), asked.get("topic", "")
    is_bare = topic not in ("", *topics) and is_alerted_topic(view.history, group, topic)
    if not is_bare:
        topic = read_choice(asked, "topic", topics) if topics else ""
    of_topic = [queue for queue in group.queues if not topic or queue.topic == topic]
    brokers = sorted({queue.broker_name for queue in of_topic})
    verdict = read_choice(asked, "verdict", WORST_FIRST)
    broker = read_choice(asked, "broker", brokers) if brokers else ""
    order = read_choice(asked, "order", ("queue", "worst"), "worst" if len(of_topic) > MOST_IN_ORDER else "queue")
    chosen = [queue for queue in of_topic if verdict in ("", queue.verdict) and broker in ("", queue.broker_name)]
    shown = slice_of(order_queues(chosen, order), asked, QUEUES_A_PAGE)
    return GroupPage(
        asked,
        group,
        topic,
        topic if is_bare else "",
        count_verdicts(of_topic),
        brokers,
        verdict,
        broker,
        order,
        shown,
        build_matrix(group, shown.items),
        view.now_ms,
    )


def draw(page: GroupPage) -> Component:
    group = page.group
    return html.Div(
        [
            *_heading(group),
            *_as_of(page),
            *_incidents(group, page.now_ms),
            _matrix_panel(page),
            *_brokers(group),
            el.panel(
                "members-panel",
                "Members",
                *member_table(group, group.twins(), page.now_ms),
                note=describe_members(group),
            ),
        ],
        className="page",
    )


def _heading(group: Group) -> list[Component]:
    counts = count_verdicts(group.queues)
    members = len({channel.client_id for channel in group.channels})
    past = href("/history", {"cluster": group.cluster, "group": group.consumer_group, "at": group.at_ms})
    words = (
        f"of {counted(len(group.queues), 'queue')}; "
        f"{counted(members, 'ClientId')} on {counted(len(group.channels), 'broker connection')}."
    )
    marks = [verdict_mark(name, counts[name]) for name in worst_first(counts)]
    return [
        el.heading(
            group.consumer_group,
            html.Span(f"group in cluster {group.cluster}", className="muted"),
            html.A("History", href=past),
        ),
        html.P([*marks, words if marks else f"0 {words}"], className="lead marks"),
    ]


def _as_of(page: GroupPage) -> list[Component]:
    group = page.group
    if group.at_ms is None:
        return []
    now = el.link("Show the current state", "/group", **{**page.asked, "at": None})
    when = f"State at {iso(group.at_ms)}, {ago(page.now_ms - group.at_ms)}."
    return [el.notice("hint", when, html.P(now), id_="as-of")]


def _incidents(group: Group, now_ms: int) -> list[Component]:
    if not group.incidents:
        return []
    cards = [_incident(incident, now_ms) for incident in group.incidents]
    note = f"causes first, at most {MOST_INCIDENTS}" if len(cards) == MOST_INCIDENTS else "causes first"
    return [el.panel("incidents-panel", "Open incidents", html.Ol(cards, className="cards"), note=note)]


def _incident(incident: OpenIncident, now_ms: int) -> Component:
    head: list[el.Child] = [
        html.H3(el.link(incident.kind, "/incident", id=incident.incident_id)),
        el.state(incident.state),
        html.Span([f"{began_words(incident.kind)} ", el.moment(incident.started_ms, now_ms)]),
    ]
    if incident.acknowledged_by:
        head.append(el.mark("●", f"acknowledged by {incident.acknowledged_by}"))
    edge, parts = "", list[Component]()
    if incident.inhibited_by:
        cause = el.link("inhibited by its cause", "/incident", id=incident.inhibited_by)
        parts = [html.Div([*head, html.Span(cause)], className="card-head")]
        parts.append(html.P(incident.summary, className="muted"))
    else:
        parts = [html.Div([*head, el.severity(incident.severity)], className="card-head"), html.P(incident.summary)]
        parts.append(html.P([html.Strong("Fix: "), incident.advice], className="advice"))
        edge = f" severity-edge-{incident.severity}"
    return html.Li(parts, className=f"card{edge}", id=f"incident-{incident.incident_id}")


def _matrix_panel(page: GroupPage) -> Component:
    asked = page.asked
    topics = [*page.group.topics(), *([page.bare_topic] if page.bare_topic else [])]
    fields = [
        el.Choice("topic", "Topic", [("", "all"), *((name, name) for name in topics)], page.topic),
        el.Choice("verdict", "Verdict", [("", "all"), *_verdict_words(page.of_topic)], page.verdict),
        el.Choice("broker", "Broker", [("", "all"), *((name, name) for name in page.brokers)], page.broker),
        el.Choice("order", "Order", [("queue", "by queue"), ("worst", "worst first")], page.order),
    ]
    kept = {name: asked[name] for name in ("cluster", "group", "at") if name in asked}
    return el.panel(
        "queues-panel",
        "Queues and clients",
        el.form(el.Form("queues-filter", "/group", "Filter queues", fields, kept)),
        *_matrix(page),
        page_links(page.shown, "/group", asked, "Pages of queues"),
        _typed(page.group, page.topic, page.shown.items),
        note=f"{describe_slice(page.shown, 'queue')}; clients in the order in which the strategy assigns queues",
    )


def _verdict_words(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    return [(name, f"{name} ({counts[name]:,})") for name in WORST_FIRST if counts.get(name)]


def _matrix(page: GroupPage) -> list[Component]:
    group, shown, matrix = page.group, page.shown, page.matrix
    if not shown.items:
        topic = page.asked.get("topic", "")
        if topic not in ("", *group.topics()):
            return [el.empty(f"Alerts name topic {topic}, but this group has no known queue of it.")]
        return [
            el.empty("No queue matches." if group.queues else "No queue is known: the group subscribes to no topic.")
        ]
    asked = {"cluster": group.cluster, "group": group.consumer_group, "at": page.asked.get("at")}
    hrefs = {_key(one): href("/history", {**asked, "topic": one.topic, "queue": one.name}) for one in shown.items}
    parts: list[Component] = [
        matrix_table(
            "queues",
            f"Queues of {group.consumer_group} by client",
            matrix,
            page.now_ms,
            hrefs=hrefs,
            incidents=_by_queue(group.incidents, shown.items),
            twins=group.twins(),
            with_topic=len(group.topics()) > 1 and not page.topic,
        )
    ]
    if matrix.elsewhere:
        parts.append(
            el.empty(f"Not shown: {counted(matrix.elsewhere, 'client')} that neither own nor pull these queues.")
        )
    return [*parts, legend(matrix.lines)]


def _key(queue: Queue) -> str:
    return f"{queue.topic} {queue.name}"


def _by_queue(incidents: Sequence[OpenIncident], queues: Sequence[Queue]) -> dict[str, Component]:
    """Return the link to the first incident that lists each queue; causes come before effects."""
    known = {_key(queue) for queue in queues if queue.verdict in WRONG}
    found: dict[str, Component] = {}
    for incident in incidents:
        for name in incident.queues:
            key = f"{incident.topic} {name}"
            if key in known:
                found.setdefault(key, el.link(incident.kind, "/incident", id=incident.incident_id))
    return found


def _typed(group: Group, topic: str, shown: Sequence[Queue]) -> Component:
    """Return the command that shows the same."""
    words = ["balancewatch"]
    if shown:
        worst = order_queues(shown, "worst")[0]
        words += ["owner", worst.topic, worst.name]
    else:
        words += ["assignments", *(["--topic", topic] if topic else [])]
    words += ["--group", group.consumer_group, "--cluster", group.cluster]
    if group.at_ms is not None:
        words += ["--at", iso(group.at_ms)]
    return html.P(["Command: ", el.code(shlex.join(words))], className="typed")


def _brokers(group: Group) -> list[Component]:
    """Return the verdicts per broker, for groups with too many queues to see that in the matrix."""
    if len(group.queues) <= MOST_IN_ORDER:
        return []
    by_broker: dict[str, Counter[str]] = {}
    for queue in group.queues:
        by_broker.setdefault(queue.broker_name, Counter())[queue.verdict] += 1
    verdicts = worst_first({queue.verdict for queue in group.queues})
    worst = sorted(by_broker.items(), key=lambda item: ([-item[1][name] for name in WRONG], item[0]))
    asked = {"cluster": group.cluster, "group": group.consumer_group}
    rows = [
        el.Row(name, [el.link(name, "/group", **asked, broker=name), *(f"{counts[one]:,}" for one in verdicts)])
        for name, counts in worst[:MOST_BROKERS]
    ]
    note = f"{len(rows)} of {counted(len(worst), 'broker')}, worst first"
    columns: list[el.Column | str] = ["Broker", *(el.Column(name, "number") for name in verdicts)]
    return [
        el.panel(
            "brokers-panel", "Queues by broker", el.table("by-broker", "Queues by broker", columns, rows), note=note
        )
    ]


PAGE = Page(
    "group",
    "/group",
    "Group",
    read,
    draw,
    parameters=frozenset({"cluster", "group", "topic", "at", "verdict", "broker", "order", "page"}),
    tables=frozenset({"acknowledgements", "alerts", "assignments", "memberships"}),
    back=("All groups", "/groups"),
)
