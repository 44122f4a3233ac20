"""The history page: bands of a group's verdicts, a slider over the times of change, and the matrix at one time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dash import dcc, html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.attributes import aria, data
from streaming.board.drawing.band_figure import MARGIN, band_figure, begins_at
from streaming.board.drawing.change_table import change_table, describe_number
from streaming.board.drawing.matrix_table import legend, matrix_table
from streaming.board.drawing.page_links import describe_slice, page_links
from streaming.board.drawing.verdicts import describe_counts
from streaming.board.pages.page import Page, View
from streaming.board.queries.group import Group, Queue, find_cluster, is_alerted_topic, read_group
from streaming.board.queries.queue_matrix import Matrix, build_matrix, count_verdicts, order_queues
from streaming.board.queries.queue_times import MOST_LANES, Place, Times, read_times
from streaming.board.url.moment import read_moment_ms
from streaming.board.url.parameters import AskedError, href, read_choice, read_span_ms
from streaming.board.url.slices import Slice, slice_of
from streaming.text.times import clock, iso

PATH = "/history"
QUEUES_A_PAGE = 50
MOST_IN_ORDER = 64
MOST_CHOICES = 100
"""Above this number of queues, the filter offers those that the bands show; the URL may name any."""

THUMB_PX = 8
"""Half the width of the slider's thumb, the distance of its middle from the track's ends."""

SPANS = (("1h", "1 hour"), ("6h", "6 hours"), ("24h", "24 hours"), ("7d", "7 days"))


@dataclass(frozen=True)
class HistoryPage:
    """Values of the page: the group at the chosen time, and the period around it.

    topic, queue   chosen by the URL, "" for all, out of `topics` and `names`
    queues         the chosen ones at that time; `shown` is the requested page of them, `matrix` these by client
    """

    asked: Mapping[str, str]
    group: Group
    times: Times
    topics: Sequence[str]
    names: Sequence[str]
    queues: Sequence[Queue]
    shown: Slice[Queue]
    matrix: Matrix
    now_ms: int

    @property
    def topic(self) -> str:
        return self.asked.get("topic", "")

    @property
    def queue(self) -> str:
        return self.asked.get("queue", "")

    @property
    def kept(self) -> dict[str, str]:
        """Parameters that links on this page keep; each link sets its own time."""
        return {name: value for name, value in self.asked.items() if name not in ("at", "page")}

    @property
    def at_ms(self) -> int:
        return self.now_ms if self.group.at_ms is None else self.group.at_ms


def read(view: View) -> HistoryPage:
    asked = view.asked
    place, at_ms = _read_place(view)
    times = read_times(view.history, place)
    group = read_group(view.history, place.cluster, place.consumer_group, at_ms, times.queues)
    topics = group.topics()
    is_unknown = place.topic not in topics and not times.lanes and topics
    if is_unknown and not is_alerted_topic(view.history, group, place.topic):
        read_choice(asked, "topic", topics)
    names = sorted({queue.name for queue in group.queues if place.topic in ("", queue.topic)})
    if len(names) > MOST_CHOICES:
        names = list(dict.fromkeys(span.queue for span in times.spans))
    queues = [queue for queue in times.queues if place.topic in ("", queue.topic) and place.queue in ("", queue.name)]
    order = "worst" if len(queues) > MOST_IN_ORDER else "queue"
    shown = slice_of(order_queues(queues, order), asked, QUEUES_A_PAGE)
    return HistoryPage(asked, group, times, topics, names, queues, shown, build_matrix(group, shown.items), view.now_ms)


def _read_place(view: View) -> tuple[Place, int | None]:
    """Return the group, filter and period, and the time that the URL names, if any."""
    asked = view.asked
    if not asked.get("group"):
        raise AskedError("group is missing: give a consumer group, as in /history?group=billing.")
    since_ms = read_span_ms(asked, "since", "6h")
    at_ms = read_moment_ms(asked, "at", view.now_ms)
    from_ms, until_ms = view.now_ms - since_ms, view.now_ms
    if at_ms is not None and at_ms <= from_ms:
        from_ms, until_ms = at_ms - since_ms // 2, min(at_ms + since_ms // 2, view.now_ms)
    place = Place(
        asked.get("cluster") or find_cluster(view.history, asked["group"]),
        asked["group"],
        asked.get("topic", ""),
        asked.get("queue", ""),
        from_ms,
        until_ms,
        until_ms if at_ms is None else at_ms,
        view.known_until_ms,
    )
    return place, at_ms


def draw(page: HistoryPage) -> Component:
    group = page.group
    back = el.link(group.consumer_group, "/group", cluster=group.cluster, group=group.consumer_group)
    changes = change_table(page.times, PATH, page.kept, page.now_ms)
    return html.Div(
        [
            el.heading(
                f"History of {group.consumer_group}", html.Span(["group ", back, f" in cluster {group.cluster}"])
            ),
            el.panel("bands-panel", "Verdicts over time", _filters(page), *_bands(page), _slider(page)),
            el.panel("matrix-panel", f"Queues and clients {_when(page)}", *_matrix(page), note=_count(page)),
            el.panel("changes-panel", "Changes", changes, note=describe_number(page.times)),
        ],
        className="page",
    )


def _filters(page: HistoryPage) -> Component:
    asked = page.asked
    fields = [
        el.Choice("topic", "Topic", _options(page.topics, page.topic), page.topic),
        el.Choice("queue", "Queue", _options(page.names, page.queue), page.queue),
        el.Choice("since", "Period", _spans(asked.get("since", "6h")), asked.get("since", "6h")),
    ]
    kept = {name: asked[name] for name in ("cluster", "group", "at") if name in asked}
    return el.form(el.Form("history-filter", PATH, "Filter queues and period", fields, kept))


def _options(names: Sequence[str], chosen: str) -> list[tuple[str, str]]:
    more = [chosen] if chosen and chosen not in names else []
    return [("", "all"), *((name, name) for name in [*names, *more])]


def _spans(since: str) -> list[tuple[str, str]]:
    return [*SPANS, *([] if since in dict(SPANS) else [(since, since)])]


def _bands(page: HistoryPage) -> list[Component]:
    times = page.times
    if not times.spans:
        return [el.empty("No data for these queues in this period.")]
    figure = band_figure(times, page.group.at_ms, lambda at_ms: href(PATH, {**page.kept, "at": at_ms}))
    notes: list[Component] = []
    if times.lanes > MOST_LANES:
        notes.append(
            el.empty(f"{MOST_LANES} of {times.lanes:,} queues, problems first. Choose a queue to see it alone.")
        )
    if times.is_cut:
        notes.append(el.empty("Too many changes to show all: choose a shorter period or one queue."))
    return [figure, *notes]


def _slider(page: HistoryPage) -> Component:
    """Return the slider over the period. In assets/moments.js, arrow keys and drags go from change to change."""
    times, at_ms = page.times, page.at_ms
    field = html.Label(
        [
            html.Span("Time (arrow keys step through the changes)"),
            dcc.Input(
                id="history-at",
                name="at",
                type="range",
                min=times.from_ms,
                max=times.until_ms,
                step=1,
                value=at_ms,
                list="history-moments",
            ),
        ],
        htmlFor="history-at",
        className="field",
    )
    marks = html.Datalist([html.Option(value=str(ms)) for ms in times.moments], id="history-moments")
    steps = html.Div(
        [
            _step("← Previous change", times.before_ms, page),
            html.Output(_describe_moment(page), id="history-output", className="moment-output"),
            _step("Next change →", times.after_ms, page),
            _step("Now", None, page) if page.group.at_ms is not None else html.Span("Now", className="step off"),
        ],
        className="steps",
    )
    return html.Form(
        [
            html.Div(
                [field, marks],
                className="slider",
                style={
                    "paddingLeft": f"{begins_at(times) - THUMB_PX}px",
                    "paddingRight": f"{MARGIN['r'] - THUMB_PX}px",
                },
            ),
            steps,
        ],
        id="history-moment",
        action=href(PATH, page.kept),
        method="get",
        className="moments",
        **aria(label="Time"),
        **data(moments=",".join(map(str, times.moments))),
    )


def _step(words: str, at_ms: int | None, page: HistoryPage) -> Component:
    if at_ms is None and words != "Now":
        return html.Span(words, className="step off")
    return html.A(words, href=href(PATH, {**page.kept, "at": at_ms}), className="step")


def _describe_moment(page: HistoryPage) -> str:
    return "now" if page.group.at_ms is None else f"{clock(page.at_ms, page.now_ms)} UTC"


def _when(page: HistoryPage) -> str:
    return "now" if page.group.at_ms is None else f"at {clock(page.at_ms, page.now_ms)}"


def _count(page: HistoryPage) -> str:
    if not page.queues:
        return ""
    return f"{describe_slice(page.shown, 'queue')}: {describe_counts(count_verdicts(page.queues))}"


def _matrix(page: HistoryPage) -> list[Component]:
    group, asked, chosen, matrix = page.group, page.asked, page.shown, page.matrix
    if not page.queues:
        return [el.empty("No queue was known at this time.")]
    with_topic = len({queue.topic for queue in page.queues}) > 1
    table = matrix_table(
        "queues",
        f"Queues of {group.consumer_group} by client",
        matrix,
        page.now_ms,
        hrefs={f"{queue.topic} {queue.name}": href(PATH, _of_queue(page.asked, queue)) for queue in chosen.items},
        incidents={},
        twins=group.twins(),
        with_topic=with_topic,
    )
    same = href("/group", {"cluster": group.cluster, "group": group.consumer_group, "at": asked.get("at")})
    return [
        table,
        page_links(chosen, PATH, asked, "Pages of queues"),
        legend(matrix.lines),
        html.P([html.A("Group page at this time", href=same), f" ({iso(page.at_ms)})"], className="typed"),
    ]


def _of_queue(asked: Mapping[str, str], queue: Queue) -> dict[str, str]:
    return {
        **{name: value for name, value in asked.items() if name != "page"},
        "topic": queue.topic,
        "queue": queue.name,
    }


PAGE = Page(
    "assignment_history",
    PATH,
    "Assignment history",
    read,
    draw,
    parameters=frozenset({"cluster", "group", "topic", "queue", "at", "since", "page"}),
    tables=frozenset({"acknowledgements", "alerts", "assignments", "memberships"}),
    back=("All groups", "/groups"),
)
