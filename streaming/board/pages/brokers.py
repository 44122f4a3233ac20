"""Brokers as their producers see them: when k of n avoided each, who avoids it now and until when, its incidents."""

import shlex
from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from streaming.board import elements as el
from streaming.board.asked import read_choice, read_span_ms
from streaming.board.broker_figure import MOST_LANES, broker_figure
from streaming.board.broker_reading import Asked, Avoider, Broker, read_brokers
from streaming.board.counts import counted
from streaming.board.page import Page, View
from streaming.board.page_links import page_links, slice_of
from streaming.board.sight_reading import read_cluster_names
from streaming.board.silence_reading import NOT_KNOWN, Known, read_known
from streaming.board.verdicts import version_words
from udfs.rulebook import CANARY_CLUSTER

BROKERS_A_PAGE = 50
MOST_AVOIDERS = 12
MOST_SILENT = 5
SPANS = (("1h", "1 hour"), ("6h", "6 hours"), ("24h", "24 hours"), ("7d", "7 days"))


def body(view: View) -> Component:
    asked = view.asked
    since_ms = read_span_ms(asked, "since", "24h")
    wanted = Asked(asked.get("cluster", ""), view.now_ms - since_ms, view.now_ms)
    known = read_known(view, wanted.until_ms, by_sends=True)
    brokers, is_cut = read_brokers(view.history, wanted, known)
    clusters = read_cluster_names(view.history)
    if wanted.cluster and not brokers:
        read_choice(asked, "cluster", clusters)
    fields = [
        el.Choice("cluster", "Cluster", [("", "all"), *((name, name) for name in clusters)], wanted.cluster),
        el.Choice("since", "Back to", _spans(asked.get("since", "24h")), asked.get("since", "24h")),
    ]
    return html.Div(
        [
            el.heading("Brokers"),
            html.P(_tell(brokers), className="lead"),
            *_silent(view, known, wanted.cluster),
            el.panel(
                "timeline-panel",
                "When producers avoided a broker",
                el.form(el.Form("brokers-filter", "/brokers", "Which brokers", fields)),
                *_timeline(brokers, wanted, known, len(clusters) > 1 and not wanted.cluster, is_cut),
            ),
            *_now(view, [broker for broker in brokers if not broker.is_quiet], known),
            *_quiet([broker for broker in brokers if broker.is_quiet]),
        ],
        className="page",
    )


def _spans(since: str) -> Sequence[tuple[str, str]]:
    return SPANS if since in dict(SPANS) else [*SPANS, (since, since)]


def _tell(brokers: Sequence[Broker]) -> str:
    if not brokers:
        return "No broker is known yet: no send of a producer and no route has come."
    avoided = [broker for broker in brokers if broker.avoiding]
    firing = [broker for broker in brokers if broker.open_incidents]
    told = f"incidents are open about {len(firing):,}" if firing else "no incident about one is open"
    if not avoided:
        return f"{counted(len(brokers), 'broker')}; no producer avoids one now; {told}."
    return f"{counted(len(brokers), 'broker')}; producers avoid {len(avoided):,} of them now; {told}."


def _silent(view: View, known: Known, cluster: str) -> list[Component]:
    """Clusters whose brokers are shown as they last were."""
    hidden = CANARY_CLUSTER if not cluster else ""
    silent = [(name, ms) for name, ms in sorted(known.silent_ms.items()) if cluster in ("", name) and name != hidden]
    if not silent or view.is_stale:  # the frame says that everything is old
        return []
    shown: list[el.Child] = ["Nothing is heard of "]
    for number, (name, ms) in enumerate(silent[:MOST_SILENT]):
        shown += [", " * bool(number), "cluster ", html.Strong(name), " since ", el.moment(ms, view.now_ms)]
    more = f" and of {len(silent) - MOST_SILENT} more" if len(silent) > MOST_SILENT else ""
    shown.append(f"{more}: who avoids its brokers is shown as of then, and is {NOT_KNOWN} now.")
    return [html.P([el.mark("?", NOT_KNOWN.upper(), "state-unknown"), " ", *shown], id="silent")]


def _timeline(
    brokers: Sequence[Broker], asked: Asked, known: Known, with_cluster: bool, is_cut: bool
) -> list[Component]:
    lanes = [broker for broker in brokers if broker.intervals or broker.incidents]
    if not lanes:
        return [el.empty("In this time nobody avoided a broker, and no incident was about one.")]
    parts: list[Component] = [broker_figure(brokers, asked.from_ms, asked.until_ms, known, with_cluster=with_cluster)]
    if len(lanes) > MOST_LANES:
        parts.append(el.empty(f"The {MOST_LANES} that matter most; {len(lanes) - MOST_LANES} more are in the list."))
    if is_cut:
        parts.append(el.empty("The oldest intervals are left out: look at a shorter time, or at one cluster."))
    return parts


def _now(view: View, brokers: Sequence[Broker], known: Known) -> list[Component]:
    if not brokers:
        return []
    shown = slice_of(brokers, view.asked, BROKERS_A_PAGE)
    rows = [
        el.Row(
            f"{one.cluster}/{one.broker_name}",
            [
                one.broker_name,
                one.cluster,
                _state(one, None if known.of(one.cluster) >= view.now_ms else known.of(one.cluster), view.now_ms),
                _until(one, view.now_ms),
                _avoiders(one, view.now_ms),
                _incidents(one, view.now_ms),
            ],
            "row-avoided" if one.avoiding else "",
        )
        for one in shown.items
    ]
    narrow = [el.Column(heading, "narrow") for heading in ("broker", "cluster", "now", "until")]
    columns: list[el.Column | str] = [*narrow, el.Column("who avoids it", "wide"), "incidents"]
    table = el.table(
        "brokers", f"{shown.tell('broker')} with something to tell, first what needs a look", columns, rows
    )
    return [
        el.panel("brokers-panel", "Who avoids it", table, page_links(shown, "/brokers", view.asked, "Pages of brokers"))
    ]


def _state(broker: Broker, known_ms: int | None, now_ms: int) -> Component:
    """As the tables have it; what is not known now is said to be of when it was."""
    if known_ms is not None:
        unsure = el.mark("?", NOT_KNOWN.upper(), "state-unknown")
        return html.Div([unsure, " since ", el.moment(known_ms, now_ms), html.Br(), _state(broker, None, now_ms)])
    if not broker.avoiding:
        return el.mark("●", "NOT AVOIDED", "broker-used") if broker.producers else el.mark("?", "NO SEND SEEN")
    share = f"{broker.avoiding} of {broker.producers}"
    if broker.avoiding >= broker.producers:
        return el.mark("✖", f"AVOIDED BY ALL, {share}", "broker-all")
    return el.mark("◐", f"AVOIDED BY {share}", "broker-some")


def _until(broker: Broker, now_ms: int) -> el.Children:
    if not broker.avoiding or broker.until_ms is None:
        return ""
    words = [el.moment(broker.until_ms, now_ms)]
    return [*words, " (past)"] if broker.until_ms < now_ms else list(words)


def _avoiders(broker: Broker, now_ms: int) -> el.Children:
    if not broker.avoiders:
        return ""
    items = [html.Li(_avoider(one, now_ms)) for one in broker.avoiders[:MOST_AVOIDERS]]
    if len(broker.avoiders) > MOST_AVOIDERS:
        line = shlex.join(
            ["balancewatch", "faults", "--current", "--broker", broker.broker_name, "--cluster", broker.cluster]
        )
        items.append(html.Li([f"and {len(broker.avoiders) - MOST_AVOIDERS:,} more: ", el.code(line)]))
    return html.Ul(items, className="avoiders")


def _avoider(one: Avoider, now_ms: int) -> list[el.Child]:
    why = "a send failed" if one.isolation else f"a send took {one.current_latency_ms:,} ms"
    return [
        el.code(one.client_id),
        f" {version_words(None, one.client_version)}: {why}; since ",
        el.moment(one.since_ms, now_ms),
        ", until ",
        el.moment(one.until_ms, now_ms),
    ]


def _incidents(broker: Broker, now_ms: int) -> el.Children:
    """What is open; else how many there were."""
    if not broker.open_incidents:
        past = len(broker.incidents)
        if not past:
            return ""
        return el.link(f"{counted(past, 'past incident')}", "/alerts", cluster=broker.cluster)
    return html.Ul(
        [
            html.Li([el.link(one.kind, "/incident", id=one.incident_id), " since ", el.moment(one.start_ms, now_ms)])
            for one in broker.open_incidents
        ],
        className="avoiders",
    )


def _quiet(brokers: Sequence[Broker]) -> list[Component]:
    if not brokers:
        return []
    names = ", ".join(broker.broker_name for broker in brokers[:500])
    summary = html.Summary(f"{counted(len(brokers), 'broker')} that nobody avoided in this time")
    return [html.Details([summary, html.P(names)], className="quiet")]


PAGE = Page(
    "brokers",
    "/brokers",
    "Brokers",
    body,
    nav="Brokers",
    parameters=frozenset({"cluster", "since", "page"}),
    tables=frozenset({"alerts", "assignments", "broker_health", "fault_items", "memberships"}),
)
