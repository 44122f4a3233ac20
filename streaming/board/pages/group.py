"""One consumer group: how it stands in words, its open incidents, the matrix of queues and clients, its members."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence

from dash import html
from dash.development.base_component import Component

from streaming.board import elements as el
from streaming.board.asked import AskedError, href, read_choice
from streaming.board.counts import counted
from streaming.board.group_reading import MOST_INCIDENTS, Group, OpenIncident, Queue, is_alerted_topic, read_group
from streaming.board.matrix_table import legend, matrix_table
from streaming.board.member_table import member_table
from streaming.board.moment_asked import read_moment_ms
from streaming.board.page import Page, View
from streaming.board.page_links import Slice, page_links, slice_of
from streaming.board.queue_matrix import build_matrix, count_verdicts, order_queues
from streaming.board.times import ago, iso
from streaming.board.verdicts import VERDICTS, WRONG, tell_counts, verdict_mark, worst_first

QUEUES_A_PAGE = 100
FITS_WHOLE = 64
"""So many queues stand in their own order, in which the strategy hands them out; of more, the worst come first."""

MOST_BROKERS = 20


def body(view: View) -> Component:
    asked = view.asked
    if not asked.get("group"):
        raise AskedError("group is missing: give the consumer group, such as /group?group=billing; /groups lists them.")
    at_ms = read_moment_ms(asked, "at", view.now_ms)
    group = read_group(view.history, asked.get("cluster"), asked["group"], at_ms)
    twins = {one.client_id for one in group.incidents if one.kind == "duplicate_client_id" and one.client_id}
    counts = count_verdicts(group.queues)
    return html.Div(
        [
            *_heading(group, counts),
            *_as_of(view, group),
            *_incidents(group, view.now_ms),
            _matrix_panel(view, group, twins),
            *_brokers(group),
            el.panel("members-panel", "Members", *member_table(group, twins, view.now_ms)),
        ],
        className="page",
    )


def _heading(group: Group, counts: Counter[str]) -> list[Component]:
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


def _as_of(view: View, group: Group) -> list[Component]:
    if group.at_ms is None:
        return []
    now = el.link("Show it as it is now.", "/group", **{**view.asked, "at": None})
    when = f"As of {iso(group.at_ms)}, {ago(view.now_ms - group.at_ms)}."
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
    if one.suppressed_by:
        cause = el.link("an effect of another incident", "/incident", id=one.suppressed_by)
        parts = [html.Div([*head, html.Span(cause)], className="card-head"), html.P(one.summary, className="muted")]
    else:
        parts = [html.Div([*head, el.severity(one.severity)], className="card-head"), html.P(one.summary)]
        parts.append(html.P([html.Strong("Fix: "), one.advice], className="advice"))
    edge = "" if one.suppressed_by else f" severity-edge-{one.severity}"
    return html.Li(parts, className=f"card{edge}", id=f"incident-{one.incident_id}")


def _matrix_panel(view: View, group: Group, twins: set[str]) -> Component:
    asked, topics = view.asked, group.topics()
    topic = asked.get("topic", "")
    is_bare = topic not in ("", *topics) and is_alerted_topic(view.history, group, topic)
    if not is_bare:
        topic = read_choice(asked, "topic", topics) if topics else ""
    of_topic = [queue for queue in group.queues if not topic or queue.topic == topic]
    brokers = sorted({queue.broker_name for queue in of_topic})
    counts = count_verdicts(of_topic)
    verdict = read_choice(asked, "verdict", tuple(VERDICTS))
    broker = read_choice(asked, "broker", brokers) if brokers else ""
    order = read_choice(asked, "order", ("queue", "worst"), "worst" if len(of_topic) > FITS_WHOLE else "queue")
    chosen = [queue for queue in of_topic if verdict in ("", queue.verdict) and broker in ("", queue.broker_name)]
    shown = slice_of(order_queues(chosen, order), asked, QUEUES_A_PAGE)
    fields = [
        el.Choice(
            "topic", "Topic", [("", "all"), *((name, name) for name in [*topics, *([topic] if is_bare else [])])], topic
        ),
        el.Choice("verdict", "Verdict", [("", "all"), *_verdict_words(counts)], verdict),
        el.Choice("broker", "Broker", [("", "all"), *((name, name) for name in brokers)], broker),
        el.Choice("order", "Order", [("queue", "by queue"), ("worst", "worst first")], order),
    ]
    kept = {name: asked[name] for name in ("cluster", "group", "at") if name in asked}
    return el.panel(
        "queues-panel",
        "Queues and clients",
        el.form(el.Form("queues-filter", "/group", "Which queues", fields, kept)),
        *_matrix(view, group, shown, twins, len(topics) > 1 and not topic),
        page_links(shown, "/group", asked, "Pages of queues"),
        _typed(group, topic, shown.items),
        note=tell_counts(counts),
    )


def _verdict_words(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    return [(name, f"{name} ({counts[name]:,})") for name in VERDICTS if counts.get(name)]


def _matrix(view: View, group: Group, shown: Slice[Queue], twins: set[str], with_topic: bool) -> list[Component]:
    if not shown.items:
        topic = view.asked.get("topic", "")
        if topic not in ("", *group.topics()):
            return [el.empty(f"Alerts name topic {topic}; no queue of it that this group consumes is known.")]
        return [el.empty("No queue is so." if group.queues else "No queue of it is known: it subscribes no topic.")]
    matrix = build_matrix(group, shown.items)
    asked = {"cluster": group.cluster, "group": group.consumer_group, "at": view.asked.get("at")}
    hrefs = {_key(one): href("/history", {**asked, "topic": one.topic, "queue": one.name}) for one in shown.items}
    parts: list[Component] = [
        matrix_table(
            "queues",
            f"{shown.tell('queue')} of {group.consumer_group} by client; ClientIds in the order of cid_all",
            matrix,
            view.now_ms,
            hrefs=hrefs,
            incidents=_by_queue(group.incidents, shown.items),
            twins=twins,
            with_topic=with_topic,
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
    body,
    parameters=frozenset({"cluster", "group", "topic", "at", "verdict", "broker", "order", "page"}),
    tables=frozenset({"alerts", "assignments", "memberships"}),
)
