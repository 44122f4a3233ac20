"""All consumer groups, worst first: what is wrong in each, since when, and the way to its matrix."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.counts import counted
from streaming.board.drawing.page_links import describe_slice, page_links
from streaming.board.drawing.verdicts import verdict_mark
from streaming.board.pages.page import Page, View
from streaming.board.queries.coverage import read_cluster_names
from streaming.board.queries.groups import GroupRow, read_groups
from streaming.board.url.parameters import read_choice
from streaming.board.url.slices import Slice, slice_of

GROUPS_A_PAGE = 50

COLUMNS = (
    el.Column("group", "narrow"),
    el.Column("cluster", "narrow"),
    el.Column("worst", "narrow"),
    el.Column("unowned", "number"),
    el.Column("not consumed", "number"),
    el.Column("double", "number"),
    el.Column("misplaced", "number"),
    el.Column("unknown", "number"),
    el.Column("since", "narrow"),
    el.Column("queues", "number"),
    el.Column("members", "number"),
    "fires",
)


@dataclass(frozen=True)
class GroupsPage:
    """All that the page shows: `chosen` of the URL's name and cluster, `shown` the part of them that has its page.

    `clusters` are those to choose from; `is_empty` says that there is no group at all of the cluster.
    """

    asked: Mapping[str, str]
    clusters: Sequence[str]
    chosen: Sequence[GroupRow]
    shown: Slice[GroupRow]
    is_empty: bool
    now_ms: int

    @property
    def cluster(self) -> str:
        return self.asked.get("cluster", "")


def read(view: View) -> GroupsPage:
    asked = view.asked
    every = read_groups(view.history, asked.get("cluster", ""))
    clusters = read_cluster_names(view.history)
    if asked.get("cluster") and not every:
        read_choice(asked, "cluster", clusters)
    name = asked.get("q", "").lower()
    chosen = [one for one in every if name in one.consumer_group.lower()]
    return GroupsPage(asked, clusters, chosen, slice_of(chosen, asked, GROUPS_A_PAGE), not every, view.now_ms)


def draw(page: GroupsPage) -> Component:
    fields: list[el.Choice | el.Entry] = [
        el.Entry("q", "Name has", page.asked.get("q", ""), "billing", 20),
        el.Choice("cluster", "Cluster", [("", "all"), *((name, name) for name in page.clusters)], page.cluster),
    ]
    return html.Div(
        [
            el.heading("Groups"),
            html.P(_describe(page.chosen), className="lead"),
            el.panel(
                "groups-panel",
                "Consumer groups",
                el.form(el.Form("groups-filter", "/groups", "Which groups", fields)),
                _table(page.shown, page.now_ms) if page.chosen else _nothing(page),
                page_links(page.shown, "/groups", page.asked, "Pages of groups"),
            ),
        ],
        className="page",
    )


def _describe(groups: Sequence[GroupRow]) -> str:
    wrong = [one for one in groups if one.wrong]
    unknown = sum(1 for one in groups if one.unknown)
    firing = sum(1 for one in groups if one.firing)
    words = [f"{counted(len(groups), 'group')}"]
    if wrong:
        queues = counted(sum(one.wrong for one in wrong), "queue")
        words.append(f"{len(wrong):,} with {queues} unowned, not consumed, double-consumed or misplaced")
    else:
        words.append("no queue is unowned, not consumed, double-consumed or misplaced")
    if unknown:
        words.append(f"{unknown:,} of which too little was seen")
    if firing:
        words.append(f"alerts fire about {firing:,}")
    return "; ".join(words) + "."


def _nothing(page: GroupsPage) -> Component:
    if not page.is_empty:
        return el.empty(f"No group's name has {page.asked.get('q', '').lower()!r}.")
    if page.cluster:
        return el.empty(f"Cluster {page.cluster} is known, and no group of it that lives.")
    return el.empty("No group is known yet: no heartbeat of a consumer and no pull has come.")


def _table(shown: Slice[GroupRow], now_ms: int) -> Component:
    rows = [el.Row(f"{one.cluster}/{one.consumer_group}", _cells(one, now_ms), _look(one)) for one in shown.items]
    return el.table("groups", f"{describe_slice(shown, 'group')}, worst first", COLUMNS, rows)


def _look(one: GroupRow) -> str:
    return f"row-{one.worst.lower()}"


def _cells(one: GroupRow, now_ms: int) -> list[el.Children]:
    counts = (one.unowned, one.not_consumed, one.double_consumed, one.misplaced, one.unknown)
    fires: el.Children = ""
    if one.incident_id:
        more = f" and {one.firing - 1} more" if one.firing > 1 else ""
        fires = [el.link(one.kind, "/incident", id=one.incident_id), more]
    return [
        el.link(one.consumer_group, "/group", cluster=one.cluster, group=one.consumer_group),
        one.cluster,
        verdict_mark(one.worst),
        *(f"{number:,}" if number else "" for number in counts),
        el.age(one.wrong_since_ms, now_ms) if one.wrong_since_ms else "",
        f"{one.queues:,}",
        f"{one.members:,}",
        fires,
    ]


PAGE = Page(
    "groups",
    "/groups",
    "Groups",
    read,
    draw,
    nav="Groups",
    parameters=frozenset({"cluster", "q", "page"}),
    tables=frozenset({"alerts", "assignments", "broker_health", "fault_items", "memberships"}),
)
