"""A group's queues over a time: bands of their verdicts, a slider over the moments of change, the matrix as of one."""

from collections.abc import Mapping
from dataclasses import dataclass

from dash import dcc, html
from dash.development.base_component import Component

from streaming.board import elements as el
from streaming.board.asked import AskedError, href, read_choice, read_span_ms
from streaming.board.attributes import aria, data
from streaming.board.band_figure import MARGIN, band_figure, begins_at
from streaming.board.group_reading import Group, Queue, find_cluster, is_alerted_topic, read_group
from streaming.board.matrix_table import legend, matrix_table
from streaming.board.moment_asked import read_moment_ms
from streaming.board.page import Page, View
from streaming.board.page_links import page_links, slice_of
from streaming.board.queue_changes import change_table
from streaming.board.queue_matrix import build_matrix, count_verdicts, order_queues
from streaming.board.queue_times import MOST_LANES, Place, Times, read_times
from streaming.board.times import clock, iso
from streaming.board.verdicts import tell_counts

PATH = "/history"
QUEUES_A_PAGE = 50
FITS_WHOLE = 64
MOST_CHOICES = 100
"""Of more queues than these, the list to choose from has those that the bands show; any may stand in the URL."""

THUMB_PX = 8
"""Half of the slider's thumb: at the slider's ends its middle is so far from the track's."""

SPANS = (("1h", "1 hour"), ("6h", "6 hours"), ("24h", "24 hours"), ("7d", "7 days"))


@dataclass(frozen=True)
class _Shown:
    """What the URL asks, resolved: the group as of the moment, the queues that are chosen, and the time around it."""

    view: View
    group: Group
    queues: list[Queue]
    times: Times

    @property
    def asked(self) -> dict[str, str]:
        """Parameters that links on this page keep; the moment is theirs to say."""
        return {name: value for name, value in self.view.asked.items() if name not in ("at", "page")}

    @property
    def at_ms(self) -> int:
        return self.view.now_ms if self.group.at_ms is None else self.group.at_ms


def body(view: View) -> Component:
    shown = _read(view)
    group, now_ms = shown.group, view.now_ms
    back = el.link(group.consumer_group, "/group", cluster=group.cluster, group=group.consumer_group)
    changes = change_table(shown.times, PATH, shown.asked, now_ms)
    return html.Div(
        [
            el.heading(f"History of {group.consumer_group}", html.Span(["group ", back, f", cluster {group.cluster}"])),
            el.panel("bands-panel", "Verdicts over time", _filters(shown), *_bands(shown), _slider(shown)),
            el.panel("matrix-panel", f"Queues and clients {_when(shown)}", *_matrix(shown)),
            el.panel("changes-panel", "What changed", changes),
        ],
        className="page",
    )


def _read(view: View) -> _Shown:
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
    times = read_times(view.history, place)
    group = read_group(view.history, place.cluster, place.consumer_group, at_ms, times.queues)
    queues = [queue for queue in times.queues if place.topic in ("", queue.topic) and place.queue in ("", queue.name)]
    return _Shown(view, group, queues, times)


def _filters(shown: _Shown) -> Component:
    asked, topics = shown.view.asked, shown.group.topics()
    topic = asked.get("topic", "")
    is_unknown = topic not in topics and not shown.times.lanes and topics
    if is_unknown and not is_alerted_topic(shown.view.history, shown.group, topic):
        read_choice(asked, "topic", topics)
    names = sorted({queue.name for queue in shown.group.queues if topic in ("", queue.topic)})
    if len(names) > MOST_CHOICES:
        names = list(dict.fromkeys(span.queue for span in shown.times.spans))
    queue = asked.get("queue", "")
    fields = [
        el.Choice("topic", "Topic", _options(topics, topic), topic),
        el.Choice("queue", "Queue", _options(names, queue), queue),
        el.Choice("since", "Time shown", _spans(asked.get("since", "6h")), asked.get("since", "6h")),
    ]
    kept = {name: asked[name] for name in ("cluster", "group", "at") if name in asked}
    return el.form(el.Form("history-filter", PATH, "Which queues and when", fields, kept))


def _options(names: list[str], chosen: str) -> list[tuple[str, str]]:
    more = [chosen] if chosen and chosen not in names else []
    return [("", "all"), *((name, name) for name in [*names, *more])]


def _spans(since: str) -> list[tuple[str, str]]:
    return [*SPANS, *([] if since in dict(SPANS) else [(since, since)])]


def _bands(shown: _Shown) -> list[Component]:
    times = shown.times
    if not times.spans:
        return [el.empty("Nothing is known of such a queue in this time.")]
    figure = band_figure(times, shown.group.at_ms, lambda at_ms: href(PATH, {**shown.asked, "at": at_ms}))
    said: list[Component] = []
    if times.lanes > MOST_LANES:
        said.append(
            el.empty(f"{MOST_LANES} of {times.lanes:,} queues, those that were wrong first; choose one to see it.")
        )
    if times.is_cut:
        said.append(el.empty("They changed too often for all to be shown: choose a shorter time, or one queue."))
    return [figure, *said]


def _slider(shown: _Shown) -> Component:
    """A range over the time; assets/moments.js lets arrow keys go from change to change, and drags snap to one."""
    times, at_ms = shown.times, shown.at_ms
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
            _step("← Change before", times.before_ms, shown),
            html.Output(_tell_moment(shown), id="history-output", className="moment-output"),
            _step("Next change →", times.after_ms, shown),
            _step("Now", None, shown) if shown.group.at_ms is not None else html.Span("Now", className="step off"),
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
        action=href(PATH, shown.asked),
        method="get",
        className="moments",
        **aria(label="Moment"),
        **data(moments=",".join(map(str, times.moments))),
    )


def _step(words: str, at_ms: int | None, shown: _Shown) -> Component:
    if at_ms is None and words != "Now":
        return html.Span(words, className="step off")
    return html.A(words, href=href(PATH, {**shown.asked, "at": at_ms}), className="step")


def _tell_moment(shown: _Shown) -> str:
    return "now" if shown.group.at_ms is None else f"{clock(shown.at_ms, shown.view.now_ms)} UTC"


def _when(shown: _Shown) -> str:
    return "now" if shown.group.at_ms is None else f"as of {clock(shown.at_ms, shown.view.now_ms)}"


def _matrix(shown: _Shown) -> list[Component]:
    group, asked = shown.group, shown.view.asked
    if not shown.queues:
        return [el.empty("None of its queues was known then.")]
    order = "worst" if len(shown.queues) > FITS_WHOLE else "queue"
    chosen = slice_of(order_queues(shown.queues, order), asked, QUEUES_A_PAGE)
    matrix = build_matrix(group, chosen.items)
    twins = {one.client_id for one in group.incidents if one.kind == "duplicate_client_id" and one.client_id}
    with_topic = len({queue.topic for queue in shown.queues}) > 1
    table = matrix_table(
        "queues",
        f"{chosen.tell('queue')}: {tell_counts(count_verdicts(shown.queues))}",
        matrix,
        shown.view.now_ms,
        hrefs={f"{one.topic} {one.name}": href(PATH, _of_queue(shown.view.asked, one)) for one in chosen.items},
        incidents={},
        twins=twins,
        with_topic=with_topic,
    )
    same = href("/group", {"cluster": group.cluster, "group": group.consumer_group, "at": asked.get("at")})
    return [
        table,
        page_links(chosen, PATH, asked, "Pages of queues"),
        legend(matrix.lines),
        html.P([html.A("The group as of this moment", href=same), f" ({iso(shown.at_ms)})"], className="typed"),
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
    body,
    parameters=frozenset({"cluster", "group", "topic", "queue", "at", "since", "page"}),
    tables=frozenset({"alerts", "assignments", "memberships"}),
)
