"""The brokers page: when producers avoided a broker, which producers do so now, and its incidents."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dash import html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.broker_figure import MOST_LANES, broker_figure
from streaming.board.drawing.counts import counted
from streaming.board.drawing.page_links import describe_slice, page_links
from streaming.board.drawing.since import began_words
from streaming.board.drawing.verdicts import version_words
from streaming.board.pages.page import Page, View
from streaming.board.queries.brokers import Asked, Avoider, Broker, read_brokers
from streaming.board.queries.coverage import read_cluster_names
from streaming.board.queries.extent import extent_of
from streaming.board.queries.known_until import NO_DATA, Known, read_known
from streaming.board.url.parameters import read_choice, read_span_ms
from streaming.board.url.slices import Slice, slice_of
from udfs.alerts.rulebook import CANARY_CLUSTER

BROKERS_A_PAGE = 50
MOST_AVOIDERS = 12
MOST_SILENT = 5
SPANS = (("1h", "1 hour"), ("6h", "6 hours"), ("24h", "24 hours"), ("7d", "7 days"))


@dataclass(frozen=True)
class BrokersPage:
    """Values of the page: all brokers, worst first, and `listed`, the page of those with avoidance or incidents.

    `from_ms` to `until_ms` is the part of the period that is drawn. `clusters` are the options of the filter. `is_cut`:
    the oldest intervals are missing because there are too many.
    """

    asked: Mapping[str, str]
    from_ms: int
    until_ms: int
    clusters: Sequence[str]
    brokers: Sequence[Broker]
    listed: Slice[Broker]
    known: Known
    is_cut: bool
    is_stale: bool
    now_ms: int

    @property
    def cluster(self) -> str:
        return self.asked.get("cluster", "")


def read(view: View) -> BrokersPage:
    asked = view.asked
    since_ms = read_span_ms(asked, "since", "24h")
    wanted = Asked(asked.get("cluster", ""), view.now_ms - since_ms, view.now_ms)
    known = read_known(view.history, view.known_until_ms, by_sends=True)
    brokers, is_cut = read_brokers(view.history, wanted, known)
    from_ms, until_ms = _extent(brokers, wanted, known)
    if from_ms > wanted.from_ms:  # again, since a shorter period shows shorter breaks
        brokers, is_cut = read_brokers(view.history, replace(wanted, from_ms=from_ms), known)
    clusters = read_cluster_names(view.history)
    if wanted.cluster and not brokers:
        read_choice(asked, "cluster", clusters)
    listed = slice_of([broker for broker in brokers if not broker.is_quiet], asked, BROKERS_A_PAGE)
    return BrokersPage(asked, from_ms, until_ms, clusters, brokers, listed, known, is_cut, view.is_stale, view.now_ms)


def _extent(brokers: Sequence[Broker], wanted: Asked, known: Known) -> tuple[int, int]:
    """Return the part of the period with something to draw; it includes the end for open incidents and missing data."""
    lanes = [broker for broker in brokers if broker.intervals or broker.incidents][:MOST_LANES]
    times_ms = [ms for lane in lanes for one in lane.intervals for ms in (one.start_ms, one.end_ms)]
    times_ms += [
        ms
        for lane in lanes
        for one in lane.incidents
        for ms in (one.start_ms, wanted.until_ms if one.end_ms is None else one.end_ms)
    ]
    times_ms += [wanted.until_ms for lane in lanes if known.of(lane.cluster) < wanted.until_ms]
    return extent_of(wanted.from_ms, wanted.until_ms, times_ms)


def draw(page: BrokersPage) -> Component:
    since = page.asked.get("since", "24h")
    fields = [
        el.Choice("cluster", "Cluster", [("", "all"), *((name, name) for name in page.clusters)], page.cluster),
        el.Choice("since", "Period", _spans(since), since),
    ]
    return html.Div(
        [
            el.heading("Brokers"),
            html.P(_describe(page), className="lead"),
            *_silent(page),
            el.panel(
                "timeline-panel",
                "Avoided brokers over time",
                el.form(el.Form("brokers-filter", "/brokers", "Filter brokers", fields)),
                *_timeline(page),
                note="a producer with sendLatencyFaultEnable avoids a broker for a while after slow or failed sends",
            ),
            *_now(page),
            *_quiet([broker for broker in page.brokers if broker.is_quiet]),
        ],
        className="page",
    )


def _spans(since: str) -> Sequence[tuple[str, str]]:
    return SPANS if since in dict(SPANS) else [*SPANS, (since, since)]


def _describe(page: BrokersPage) -> str:
    """Return counts of the brokers; those without current data are neither avoided nor not avoided."""
    if not page.brokers:
        return "No broker is known yet: no route or send has been reported."
    current = [broker for broker in page.brokers if page.known.of(broker.cluster) >= page.now_ms]
    avoided = sum(1 for broker in current if broker.avoiding)
    incidents = sum(1 for broker in page.brokers if broker.open_incidents)
    words = [counted(len(page.brokers), "broker")]
    if current:
        words.append(f"{avoided:,} avoided by producers now" if avoided else "none avoided by a producer now")
    if len(current) < len(page.brokers):
        words.append(f"{len(page.brokers) - len(current):,} without current data")
    words.append(f"{incidents:,} with open incidents" if incidents else "no open incidents")
    return "; ".join(words) + "."


def _silent(page: BrokersPage) -> list[Component]:
    """Return the notice of clusters whose brokers are shown in their last known state."""
    known, cluster = page.known, page.cluster
    hidden = CANARY_CLUSTER if not cluster else ""
    silent = [(name, ms) for name, ms in sorted(known.silent_ms.items()) if cluster in ("", name) and name != hidden]
    if not silent or page.is_stale:  # the notice of stale data covers it
        return []
    shown: list[el.Child] = ["from "]
    for number, (name, ms) in enumerate(silent[:MOST_SILENT]):
        shown += [", " * bool(number), "cluster ", html.Strong(name), " since ", el.moment(ms, page.now_ms)]
    more = f" and {len(silent) - MOST_SILENT} more" if len(silent) > MOST_SILENT else ""
    shown.append(f"{more}. The brokers there are shown in their last known state.")
    return [html.P([el.mark("?", NO_DATA.upper(), "state-unknown"), " ", *shown], id="silent")]


def _timeline(page: BrokersPage) -> list[Component]:
    lanes = [broker for broker in page.brokers if broker.intervals or broker.incidents]
    if not lanes:
        return [el.empty("No broker was avoided or had an incident in this period.")]
    with_cluster = len(page.clusters) > 1 and not page.cluster
    parts: list[Component] = [
        broker_figure(page.brokers, page.from_ms, page.until_ms, page.known, with_cluster=with_cluster)
    ]
    if len(lanes) > MOST_LANES:
        parts.append(el.empty(f"Showing the worst {MOST_LANES}; the table below lists {len(lanes) - MOST_LANES} more."))
    if page.is_cut:
        parts.append(el.empty("The oldest intervals are not shown: choose a shorter period or one cluster."))
    return parts


def _now(page: BrokersPage) -> list[Component]:
    shown, known, now_ms = page.listed, page.known, page.now_ms
    if not shown.total:
        return []
    rows = [
        el.Row(
            f"{one.cluster}/{one.broker_name}",
            [
                one.broker_name,
                one.cluster,
                _state(one, None if known.of(one.cluster) >= now_ms else known.of(one.cluster), now_ms),
                _until(one, now_ms),
                _avoiders(one, now_ms),
                _incidents(one, now_ms),
            ],
            "row-avoided" if one.avoiding else "",
        )
        for one in shown.items
    ]
    narrow = [el.Column(heading, "narrow") for heading in ("Now", "Until")]
    columns: list[el.Column | str] = [el.Column("Broker", "name"), el.Column("Cluster", "name"), *narrow]
    columns += [el.Column("Avoided by", "wide"), "Incidents"]
    return [
        el.panel(
            "brokers-panel",
            "Affected brokers",
            el.table("brokers", "Affected brokers", columns, rows),
            page_links(shown, "/brokers", page.asked, "Pages of brokers"),
            note=f"{describe_slice(shown, 'broker')}, worst first",
        )
    ]


def _state(broker: Broker, known_ms: int | None, now_ms: int) -> Component:
    """Return the state now; without current data, since when, and the last known state as such."""
    shape, words, look = _state_words(broker)
    if known_ms is None:
        return el.mark(shape, words.upper(), look)
    unknown = el.mark("?", NO_DATA.upper(), "state-unknown")
    last = html.Span(f"before: {words}", className="muted")
    return html.Div([unknown, " since ", el.moment(known_ms, now_ms), html.Br(), last])


def _state_words(broker: Broker) -> tuple[str, str, str]:
    if not broker.producers:
        return "?", "no sends seen", ""
    share = f"{broker.avoiding} of {broker.producers}"
    if not broker.avoiding:
        return "●", "not avoided", "broker-used"
    if broker.avoiding >= broker.producers:
        return "✖", f"avoided by all, {share}", "broker-all"
    return "◐", f"avoided by {share}", "broker-some"


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
    """Return links to the open incidents, else the number of past ones."""
    if not broker.open_incidents:
        past = len(broker.incidents)
        if not past:
            return ""
        return el.link(f"{counted(past, 'past incident')}", "/alerts", cluster=broker.cluster)
    return html.Ul(
        [
            html.Li(
                [
                    el.link(one.kind, "/incident", id=one.incident_id),
                    f" {began_words(one.kind)} ",
                    el.moment(one.start_ms, now_ms),
                ]
            )
            for one in broker.open_incidents
        ],
        className="avoiders",
    )


def _quiet(brokers: Sequence[Broker]) -> list[Component]:
    if not brokers:
        return []
    names = ", ".join(broker.broker_name for broker in brokers[:500])
    summary = html.Summary(f"{counted(len(brokers), 'broker')} without avoidance or incidents in this period")
    return [html.Details([summary, html.P(names)], className="quiet")]


PAGE = Page(
    "brokers",
    "/brokers",
    "Brokers",
    read,
    draw,
    nav="Brokers",
    parameters=frozenset({"cluster", "since", "page"}),
    tables=frozenset({"alerts", "assignments", "broker_health", "fault_items", "memberships"}),
)
