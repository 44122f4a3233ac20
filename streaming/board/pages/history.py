"""The history page: bands of a group's verdicts, a slider over the times of change, and the matrix at one time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from streaming.board.chart import BLUE, GREEN, GREY, Axis, Bar, Chart, Mark, fitting, lane_name
from streaming.board.page import Page, View
from streaming.board.pages.group_tables import Group, Queue, find_cluster, is_alerted_topic, read_group
from streaming.board.pages.matrix import Matrix, build_matrix, count_verdicts, order_queues
from streaming.board.pages.queue_times import (
    MOST_CHANGES,
    MOST_COMINGS,
    MOST_LANES,
    Place,
    Row,
    Span,
    Times,
    read_times,
)
from streaming.board.url import AskedError, Slice, href, read_choice, read_moment_ms, read_span_ms, slice_of
from streaming.board.words import VERDICTS, counted
from streaming.text.times import clock
from udfs.alerts.prose import join_words, name_queues, some
from udfs.groups.queue_state import OK

PATH = "/history"
QUEUES_A_PAGE = 50
MOST_IN_ORDER = 64
MOST_CHOICES = 100
"""Above this number of queues, the filter offers those that the bands show; the URL may name any."""


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


LANE_PX = 22
MOST_BARS = 300
"""Above this number, bars of one verdict are joined across owners, then the oldest are not drawn."""

LEAST_SHARE = 1 / 400

SYMBOLS = {"JOINED": "▲", "CHANGED": "◆", "LEFT": "▼", "EXPIRED": "✕"}
COMING_WORDS = {"JOINED": "joined", "CHANGED": "changed its topics or strategy", "LEFT": "left", "EXPIRED": "expired"}


def draw(page: HistoryPage) -> Mapping[str, Any]:
    """Return the chart, and the rows of the table of changes."""
    return {
        "chart": bands_chart(page) if page.times.spans else None,
        "most_lanes": MOST_LANES,
        "changes": _changes(page.times),
        "changes_note": _describe_number(page.times),
        "verdicts": count_verdicts(page.queues),
        "hrefs": {
            queue.key: href(PATH, page.asked, page=None, topic=queue.topic, queue=queue.name)
            for queue in page.shown.items
        },
        "with_topic": len({queue.topic for queue in page.queues}) > 1,
    }


def bands_chart(page: HistoryPage) -> Chart:
    """Return the chart with a lane per queue below those of incidents and members. Its label counts the changes."""
    times = page.times
    axis = Axis(times.from_ms, times.until_ms)
    queues = list(dict.fromkeys((span.topic, span.queue) for span in times.spans))
    names = [*(incident["kind"] for incident in times.incidents), "members", *(queue for _, queue in queues)]
    lanes = {name: number for number, name in enumerate(queues, len(times.incidents) + 1)}
    bars = []
    for lane, incident in enumerate(times.incidents):
        end_ms = incident["end_ms"] or max(incident["start_ms"], times.known_until_ms)
        place = axis.span(incident["start_ms"], end_ms, LEAST_SHARE)
        title, link = f"{incident['kind']}, {incident['state']}", href("/incident", {"id": incident["incident_id"]})
        text = fitting(incident["state"], place[1])
        bars.append(Bar(*place, lane * LANE_PX + 2, LANE_PX - 4, BLUE, "", "incident", title, text, link))
    for span in _bars(times):
        known = VERDICTS[span.verdict]
        place = axis.span(span.start_ms, span.end_ms, LEAST_SHARE)
        word = (span.planned_owner or "") if span.verdict == OK else span.verdict
        y = lanes[span.topic, span.queue] * LANE_PX + 2
        link = _at(page, span.start_ms)
        seen = some(span.observed_owners, 3) if span.observed_owners else "no client"
        title = (
            f"{span.queue} {span.verdict}\n{clock(span.start_ms, times.until_ms)} to "
            f"{clock(span.end_ms, times.until_ms)}\nplanned owner: {span.planned_owner or 'none'}\nconsumed by: {seen}"
        )
        text = fitting(word, place[1])
        bars.append(Bar(*place, y, LANE_PX - 4, known.tone, known.hatch, span.verdict, title, text, link))
    middle = len(times.incidents) * LANE_PX + LANE_PX / 2
    marks = [
        Mark(
            axis.x(coming["time_ms"]),
            middle,
            SYMBOLS.get(coming["change"], "◆"),
            GREEN if coming["change"] == "JOINED" else GREY,
            f"{some(coming['client_ids'], 3)} {COMING_WORDS.get(coming['change'], coming['change'])}",
            _at(page, coming["time_ms"]),
        )
        for coming in times.comings
    ]
    of_all = f" of {times.lanes:,}" if len(queues) < times.lanes else ""
    label = (
        f"{counted(len(queues), 'queue')}{of_all} from {clock(times.from_ms, times.until_ms)} to "
        f"{clock(times.until_ms, times.until_ms)} UTC: {_describe_changes(times)}. The table below lists them."
    )
    return Chart(
        "bands",
        label,
        LANE_PX * len(names),
        axis,
        bars,
        marks,
        names=[(lane * LANE_PX + LANE_PX / 2, lane_name(name)) for lane, name in enumerate(names)],
        at=None if page.group.at_ms is None else axis.x(page.group.at_ms),
    )


def _at(page: HistoryPage, time_ms: int) -> str:
    return href(PATH, {**page.kept, "at": time_ms})


def _bars(times: Times) -> list[Span]:
    """Return the spans to draw: all if there are few, else one per verdict, at most the newest MOST_BARS."""
    if len(times.spans) <= MOST_BARS:
        return list(times.spans)
    merged = []
    for (topic, queue, verdict), group in groupby(times.spans, lambda span: (span.topic, span.queue, span.verdict)):
        newest, *older = group
        start_ms = older[-1].start_ms if older else newest.start_ms
        owner = newest.planned_owner if not older else None
        merged.append(Span(topic, queue, start_ms, newest.end_ms, verdict, owner, newest.observed_owners))
    return sorted(merged, key=lambda span: (span.verdict == OK, -span.end_ms))[:MOST_BARS]


def _changes(times: Times) -> list[Row]:
    """Return the newest changes of verdicts, owners and members, one row per time and kind.

    A row has a new verdict (`became`) and the one before it (`was`), or a shape with words.
    """
    rows = [_change_row(change) for change in times.changes["newest"]]
    for coming in times.comings:
        time_ms, change = coming["time_ms"], coming["change"]
        shape = "▲" if change == "JOINED" else "◆" if change == "CHANGED" else "▼"
        mark = {"shape": shape, "words": COMING_WORDS.get(change, change), "look": "coming"}
        rows.append({"key": f"{time_ms}-{change}", "time_ms": time_ms, "what": some(coming["client_ids"], 6), **mark})
    return sorted(rows, key=lambda row: (-row["time_ms"], row.get("look") == "coming"))[:MOST_CHANGES]


def _change_row(change: Row) -> Row:
    queues = f"{name_queues(change['queues'])} of {change['topic']}"
    before, after, way, owners = change["before"], change["after"], change["way"], change["owners"]
    row = {"key": f"{change['time_ms']}/{change['topic']}/{way}/{before}/{after}", "time_ms": change["time_ms"]}
    if way == "became":
        if owners:
            more = change["owners_number"] - len(owners)
            named = join_words([*owners, *([f"{more} more"] if more else [])])
            queues += f"; {'planned owner' if change['owners_number'] == 1 else 'planned owners'}: {named}"
        return {**row, "what": queues, "became": after, "was": before}
    words, none = ("planned owner", "none") if way == "moved" else ("pulled by", "no client")
    return {
        **row,
        "what": queues,
        "shape": "→",
        "words": f"{words}: {before or none} → {after or none}",
        "look": "moved",
    }


def _describe_number(times: Times) -> str:
    """Return `12 changes, newest first`, or `newest 60 of 70 changes` if the table shows only a part."""
    number = times.changes["number"] + len(times.comings)
    if not number:
        return ""
    if number <= MOST_CHANGES:
        return f"{counted(number, 'change')}, newest first"
    over = "over " if len(times.comings) == MOST_COMINGS else ""
    return f"newest {MOST_CHANGES} of {over}{counted(number, 'change')}"


def _describe_changes(times: Times) -> str:
    """Return the changes in a few words for the chart's label."""
    changes = times.changes
    words = [f"{number:,} became {verdict}" for verdict, number in sorted(changes["became"].items())]
    if changes["moved"]:
        words.append(f"{changes['moved']:,} moved to another client")
    return join_words(words) if words else "nothing changed"


PAGE = Page(
    "history",
    PATH,
    "Assignment history",
    read,
    draw,
    parameters=frozenset({"cluster", "group", "topic", "queue", "at", "since", "page"}),
    tables=frozenset({"acknowledgements", "alerts", "assignments", "memberships"}),
    back=("All groups", "/groups"),
)
