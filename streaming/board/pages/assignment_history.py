"""A group's queues over a time: bands of their verdicts, a slider over the moments of change, the matrix as of one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dash import dcc, html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.attributes import aria, data
from streaming.board.drawing.band_figure import MARGIN, band_figure, begins_at
from streaming.board.drawing.change_table import change_table
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
FITS_WHOLE = 64
MOST_CHOICES = 100
"""Of more queues than these, the list to choose from has those that the bands show; any may stand in the URL."""

THUMB_PX = 8
"""Half of the slider's thumb: at the slider's ends its middle is so far from the track's."""

SPANS = (("1h", "1 hour"), ("6h", "6 hours"), ("24h", "24 hours"), ("7d", "7 days"))


@dataclass(frozen=True)
class HistoryPage:
    """All that the page shows: the group as of the moment, and the time around it.

    topic, queue   what the URL chooses, "" for all, of `topics` and `names`
    queues         the chosen ones as of the moment; `shown` is their part that has its page, `matrix` these by client
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
        """Parameters that links on this page keep; the moment is theirs to say."""
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
    order = "worst" if len(queues) > FITS_WHOLE else "queue"
    shown = slice_of(order_queues(queues, order), asked, QUEUES_A_PAGE)
    return HistoryPage(asked, group, times, topics, names, queues, shown, build_matrix(group, shown.items), view.now_ms)


def _read_place(view: View) -> tuple[Place, int | None]:
    """What is looked at, and the moment that the URL asks for, if any."""
    asked = view.asked
    if not asked.get("group"):
        raise AskedError("group is missing: give the consumer group, such as /history?group=billing.")
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
            el.heading(f"History of {group.consumer_group}", html.Span(["group ", back, f", cluster {group.cluster}"])),
            el.panel("bands-panel", "Verdicts over time", _filters(page), *_bands(page), _slider(page)),
            el.panel("matrix-panel", f"Queues and clients {_when(page)}", *_matrix(page)),
            el.panel("changes-panel", "What changed", changes),
        ],
        className="page",
    )


def _filters(page: HistoryPage) -> Component:
    asked = page.asked
    fields = [
        el.Choice("topic", "Topic", _options(page.topics, page.topic), page.topic),
        el.Choice("queue", "Queue", _options(page.names, page.queue), page.queue),
        el.Choice("since", "Time shown", _spans(asked.get("since", "6h")), asked.get("since", "6h")),
    ]
    kept = {name: asked[name] for name in ("cluster", "group", "at") if name in asked}
    return el.form(el.Form("history-filter", PATH, "Which queues and when", fields, kept))


def _options(names: Sequence[str], chosen: str) -> list[tuple[str, str]]:
    more = [chosen] if chosen and chosen not in names else []
    return [("", "all"), *((name, name) for name in [*names, *more])]


def _spans(since: str) -> list[tuple[str, str]]:
    return [*SPANS, *([] if since in dict(SPANS) else [(since, since)])]


def _bands(page: HistoryPage) -> list[Component]:
    times = page.times
    if not times.spans:
        return [el.empty("Nothing is known of such a queue in this time.")]
    figure = band_figure(times, page.group.at_ms, lambda at_ms: href(PATH, {**page.kept, "at": at_ms}))
    said: list[Component] = []
    if times.lanes > MOST_LANES:
        said.append(
            el.empty(f"{MOST_LANES} of {times.lanes:,} queues, those that were wrong first; choose one to see it.")
        )
    if times.is_cut:
        said.append(el.empty("They changed too often for all to be shown: choose a shorter time, or one queue."))
    return [figure, *said]


def _slider(page: HistoryPage) -> Component:
    """A range over the time; assets/moments.js lets arrow keys go from change to change, and drags snap to one."""
    times, at_ms = page.times, page.at_ms
    field = html.Label(
        [
            html.Span("Moment; arrow keys go from change to change"),
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
            _step("← Change before", times.before_ms, page),
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
        **aria(label="Moment"),
        **data(moments=",".join(map(str, times.moments))),
    )


def _step(words: str, at_ms: int | None, page: HistoryPage) -> Component:
    if at_ms is None and words != "Now":
        return html.Span(words, className="step off")
    return html.A(words, href=href(PATH, {**page.kept, "at": at_ms}), className="step")


def _describe_moment(page: HistoryPage) -> str:
    return "now" if page.group.at_ms is None else f"{clock(page.at_ms, page.now_ms)} UTC"


def _when(page: HistoryPage) -> str:
    return "now" if page.group.at_ms is None else f"as of {clock(page.at_ms, page.now_ms)}"


def _matrix(page: HistoryPage) -> list[Component]:
    group, asked, chosen, matrix = page.group, page.asked, page.shown, page.matrix
    if not page.queues:
        return [el.empty("None of its queues was known then.")]
    with_topic = len({queue.topic for queue in page.queues}) > 1
    table = matrix_table(
        "queues",
        f"{describe_slice(chosen, 'queue')}: {describe_counts(count_verdicts(page.queues))}",
        matrix,
        page.now_ms,
        hrefs={f"{one.topic} {one.name}": href(PATH, _of_queue(page.asked, one)) for one in chosen.items},
        incidents={},
        twins=group.twins(),
        with_topic=with_topic,
    )
    same = href("/group", {"cluster": group.cluster, "group": group.consumer_group, "at": asked.get("at")})
    return [
        table,
        page_links(chosen, PATH, asked, "Pages of queues"),
        legend(matrix.lines),
        html.P([html.A("The group as of this moment", href=same), f" ({iso(page.at_ms)})"], className="typed"),
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
    tables=frozenset({"alerts", "assignments", "memberships"}),
)
