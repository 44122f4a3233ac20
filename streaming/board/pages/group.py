"""One consumer group: how it stands in words, its open incidents, the matrix of queues and clients, its members."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.counts import counted
from streaming.board.drawing.matrix_table import legend, matrix_table
from streaming.board.drawing.member_table import member_table
from streaming.board.drawing.page_links import describe_slice, page_links
from streaming.board.drawing.verdicts import describe_counts, verdict_mark
from streaming.board.pages.page import Page, View
from streaming.board.queries.group import MOST_INCIDENTS, Group, OpenIncident, Queue, is_alerted_topic, read_group
from streaming.board.queries.queue_matrix import Matrix, build_matrix, count_verdicts, order_queues
from streaming.board.queries.verdict_order import WORST_FIRST, WRONG, worst_first
from streaming.board.url.moment import read_moment_ms
from streaming.board.url.parameters import AskedError, href, read_choice
from streaming.board.url.slices import Slice, slice_of
from streaming.text.times import ago, iso

QUEUES_A_PAGE = 100
FITS_WHOLE = 64
"""So many queues stand in their own order, in which the strategy hands them out; of more, the worst come first."""

MOST_BROKERS = 20


@dataclass(frozen=True)
class GroupPage:
    """All that the page shows of a group. `asked` is what the URL asks; the filters are `topic` ("" for all),
    `verdict`, `broker` and `order`.

    bare_topic  a topic of the URL that alerts alone name
    of_topic    queues of the topic, by verdict, and in `brokers` their brokers
    shown       the part of the chosen queues that has its page, and `matrix` these by client
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
        raise AskedError("group is missing: give the consumer group, such as /group?group=billing; /groups lists them.")
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
    order = read_choice(asked, "order", ("queue", "worst"), "worst" if len(of_topic) > FITS_WHOLE else "queue")
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
            el.panel("members-panel", "Members", *member_table(group, group.twins(), page.now_ms)),
        ],
        className="page",
    )


def _heading(group: Group) -> list[Component]:
    counts = count_verdicts(group.queues)
    members = len({channel.client_id for channel in group.channels})
    past = href("/history", {"cluster": group.cluster, "group": group.consumer_group, "at": group.at_ms})
    words = (
        f"of {counted(len(group.queues), 'queue')}; "
        f"{counted(members, 'ClientId')} on {counted(len(group.channels), 'channel')}."
    )
    marks = [verdict_mark(name, counts[name]) for name in worst_first(counts)]
    return [
        el.heading(
            group.consumer_group,
            html.Span(f"group of cluster {group.cluster}", className="muted"),
            html.A("History", href=past),
        ),
        html.P([*marks, words if marks else f"0 {words}"], className="lead marks"),
    ]


def _as_of(page: GroupPage) -> list[Component]:
    group = page.group
    if group.at_ms is None:
        return []
    now = el.link("Show it as it is now.", "/group", **{**page.asked, "at": None})
    when = f"As of {iso(group.at_ms)}, {ago(page.now_ms - group.at_ms)}."
    return [el.notice("hint", when, html.P(now), id_="as-of")]


def _incidents(group: Group, now_ms: int) -> list[Component]:
    if not group.incidents:
        return []
    cards = [_incident(one, now_ms) for one in group.incidents]
    note = f"causes first; the first {MOST_INCIDENTS}" if len(cards) == MOST_INCIDENTS else "causes first"
    return [el.panel("incidents-panel", "Open incidents", html.Ol(cards, className="cards"), note=note)]


def _incident(one: OpenIncident, now_ms: int) -> Component:
    head: list[el.Child] = [
        html.H3(el.link(one.kind, "/incident", id=one.incident_id)),
        el.state(one.state),
        html.Span(["since ", el.moment(one.started_ms, now_ms)]),
    ]
    if one.inhibited_by:
        cause = el.link("an effect of another incident", "/incident", id=one.inhibited_by)
        parts = [html.Div([*head, html.Span(cause)], className="card-head"), html.P(one.summary, className="muted")]
    else:
        parts = [html.Div([*head, el.severity(one.severity)], className="card-head"), html.P(one.summary)]
        parts.append(html.P([html.Strong("Fix: "), one.advice], className="advice"))
    edge = "" if one.inhibited_by else f" severity-edge-{one.severity}"
    return html.Li(parts, className=f"card{edge}", id=f"incident-{one.incident_id}")


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
        el.form(el.Form("queues-filter", "/group", "Which queues", fields, kept)),
        *_matrix(page),
        page_links(page.shown, "/group", asked, "Pages of queues"),
        _typed(page.group, page.topic, page.shown.items),
        note=describe_counts(page.of_topic),
    )


def _verdict_words(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    return [(name, f"{name} ({counts[name]:,})") for name in WORST_FIRST if counts.get(name)]


def _matrix(page: GroupPage) -> list[Component]:
    group, shown, matrix = page.group, page.shown, page.matrix
    if not shown.items:
        topic = page.asked.get("topic", "")
        if topic not in ("", *group.topics()):
            return [el.empty(f"Alerts name topic {topic}; no queue of it that this group consumes is known.")]
        return [el.empty("No queue is so." if group.queues else "No queue of it is known: it subscribes no topic.")]
    asked = {"cluster": group.cluster, "group": group.consumer_group, "at": page.asked.get("at")}
    hrefs = {_key(one): href("/history", {**asked, "topic": one.topic, "queue": one.name}) for one in shown.items}
    parts: list[Component] = [
        matrix_table(
            "queues",
            f"{describe_slice(shown, 'queue')} of {group.consumer_group} by client; ClientIds in the order of cid_all",
            matrix,
            page.now_ms,
            hrefs=hrefs,
            incidents=_by_queue(group.incidents, shown.items),
            twins=group.twins(),
            with_topic=len(group.topics()) > 1 and not page.topic,
        )
    ]
    if matrix.elsewhere:
        parts.append(el.empty(f"{counted(matrix.elsewhere, 'other client')} have nothing to do with these queues."))
    return [*parts, legend(matrix.lines)]


def _key(queue: Queue) -> str:
    return f"{queue.topic} {queue.name}"


def _by_queue(incidents: Sequence[OpenIncident], queues: Sequence[Queue]) -> dict[str, Component]:
    """The first incident that lists each queue; causes come before their effects."""
    known = {_key(queue) for queue in queues if queue.verdict in WRONG}
    found: dict[str, Component] = {}
    for one in incidents:
        for name in one.queues:
            key = f"{one.topic} {name}"
            if key in known:
                found.setdefault(key, el.link(one.kind, "/incident", id=one.incident_id))
    return found


def _typed(group: Group, topic: str, shown: Sequence[Queue]) -> Component:
    """What to type for the same."""
    words = ["balancewatch"]
    if shown:
        worst = order_queues(shown, "worst")[0]
        words += ["owner", worst.topic, worst.name]
    else:
        words += ["assignments", *(["--topic", topic] if topic else [])]
    words += ["--group", group.consumer_group, "--cluster", group.cluster]
    if group.at_ms is not None:
        words += ["--at", iso(group.at_ms)]
    return html.P(["In a terminal: ", el.code(shlex.join(words))], className="typed")


def _brokers(group: Group) -> list[Component]:
    """Verdicts a broker, where there are too many queues to see it in the matrix."""
    if len(group.queues) <= FITS_WHOLE:
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
    caption = f"Queues a broker; {len(rows)} of {len(worst)} brokers, worst first"
    columns: list[el.Column | str] = ["broker", *(el.Column(name, "number") for name in verdicts)]
    return [el.panel("brokers-panel", "By broker", el.table("by-broker", caption, columns, rows))]


PAGE = Page(
    "group",
    "/group",
    "Group",
    read,
    draw,
    parameters=frozenset({"cluster", "group", "topic", "at", "verdict", "broker", "order", "page"}),
    tables=frozenset({"alerts", "assignments", "memberships"}),
)
