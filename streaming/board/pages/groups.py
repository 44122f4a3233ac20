"""The groups page: all consumer groups, worst first, with their verdicts and firing alerts."""

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
    el.Column("Group", "name"),
    el.Column("Worst verdict", "narrow"),
    el.Column("Unowned", "number"),
    el.Column("Not consumed", "number"),
    el.Column("Double", "number"),
    el.Column("Misplaced", "number"),
    el.Column("Unknown", "number"),
    el.Column("Certain since", "narrow"),
    el.Column("Queues", "number"),
    el.Column("Members", "number"),
    "Firing",
)


@dataclass(frozen=True)
class GroupsPage:
    """Values of the page: `chosen` groups by the URL's name and cluster, and `shown`, the requested page of them.

    `clusters` are the options of the filter. `is_empty`: the cluster has no group.
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
    chosen = [group for group in every if name in group.consumer_group.lower()]
    return GroupsPage(asked, clusters, chosen, slice_of(chosen, asked, GROUPS_A_PAGE), not every, view.now_ms)


def draw(page: GroupsPage) -> Component:
    fields: list[el.Choice | el.Entry] = [
        el.Entry("q", "Name contains", page.asked.get("q", ""), "billing", 20),
        el.Choice("cluster", "Cluster", [("", "all"), *((name, name) for name in page.clusters)], page.cluster),
    ]
    return html.Div(
        [
            el.heading("Groups"),
            html.P(_describe(page.chosen), className="lead"),
            el.panel(
                "groups-panel",
                "Consumer groups",
                el.form(el.Form("groups-filter", "/groups", "Filter groups", fields)),
                _table(page.shown, page.now_ms) if page.chosen else _nothing(page),
                page_links(page.shown, "/groups", page.asked, "Pages of groups"),
                note=f"{describe_slice(page.shown, 'group')}, worst first" if page.chosen else None,
            ),
        ],
        className="page",
    )


def _describe(groups: Sequence[GroupRow]) -> str:
    wrong = [group for group in groups if group.wrong]
    unknown = sum(1 for group in groups if group.unknown)
    firing = sum(1 for group in groups if group.firing)
    words = [counted(len(groups), "group")]
    if not groups:
        return "0 groups."
    if wrong:
        queues = counted(sum(group.wrong for group in wrong), "queue")
        words.append(f"{len(wrong):,} with {queues} unowned, not consumed, double-consumed or misplaced")
    else:
        words.append("no queue is unowned, not consumed, double-consumed or misplaced")
    if unknown:
        words.append(f"{unknown:,} with unknown queues")
    if firing:
        words.append(f"{firing:,} with firing alerts")
    return "; ".join(words) + "."


def _nothing(page: GroupsPage) -> Component:
    if not page.is_empty:
        return el.empty(f"No group name contains {page.asked.get('q', '').lower()!r}.")
    if page.cluster:
        return el.empty(f"Cluster {page.cluster} has no active consumer group.")
    return el.empty("No consumer group is known yet: no heartbeat or pull has been reported.")


def _table(shown: Slice[GroupRow], now_ms: int) -> Component:
    rows = [
        el.Row(f"{group.cluster}/{group.consumer_group}", _cells(group, now_ms), f"row-{group.worst.lower()}")
        for group in shown.items
    ]
    return el.table("groups", "Consumer groups", COLUMNS, rows)


def _cells(group: GroupRow, now_ms: int) -> list[el.Children]:
    counts = (group.unowned, group.not_consumed, group.double_consumed, group.misplaced, group.unknown)
    firing: el.Children = ""
    if group.incident_id:
        more = f" and {group.firing - 1} more" if group.firing > 1 else ""
        firing = [el.link(group.kind, "/incident", id=group.incident_id), more]
    return [
        [
            el.link(group.consumer_group, "/group", cluster=group.cluster, group=group.consumer_group),
            html.Br(),
            html.Span(group.cluster, className="muted"),
        ],
        verdict_mark(group.worst),
        *(f"{number:,}" if number else "" for number in counts),
        el.age(group.wrong_since_ms, now_ms) if group.wrong_since_ms else "",
        f"{group.queues:,}",
        f"{group.members:,}",
        firing,
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
