"""All consumer groups, worst first: what is wrong in each, since when, and the way to its matrix."""

from dash import html
from dash.development.base_component import Component

from streaming.board import elements as el
from streaming.board.asked import read_choice
from streaming.board.counts import counted
from streaming.board.group_list import GroupRow, read_groups
from streaming.board.page import Page, View
from streaming.board.page_links import Slice, page_links, slice_of
from streaming.board.sight_reading import read_cluster_names
from streaming.board.verdicts import verdict_mark

GROUPS_A_PAGE = 50

COLUMNS = (
    el.Column("group", "narrow"),
    el.Column("cluster", "narrow"),
    el.Column("worst", "narrow"),
    el.Column("starved", "number"),
    el.Column("silent", "number"),
    el.Column("doubled", "number"),
    el.Column("misplaced", "number"),
    el.Column("unknown", "number"),
    el.Column("since", "narrow"),
    el.Column("queues", "number"),
    el.Column("members", "number"),
    "fires",
)


def body(view: View) -> Component:
    asked = view.asked
    every = read_groups(view.history, asked.get("cluster", ""))
    clusters = read_cluster_names(view.history)
    if asked.get("cluster") and not every:
        read_choice(asked, "cluster", clusters)
    q = asked.get("q", "").lower()
    chosen = [one for one in every if q in one.consumer_group.lower()]
    shown = slice_of(chosen, asked, GROUPS_A_PAGE)
    fields: list[el.Choice | el.Entry] = [
        el.Entry("q", "Name has", asked.get("q", ""), "billing", 20),
        el.Choice("cluster", "Cluster", [("", "all"), *((name, name) for name in clusters)], asked.get("cluster", "")),
    ]
    return html.Div(
        [
            el.heading("Groups"),
            html.P(_tell(chosen), className="lead"),
            el.panel(
                "groups-panel",
                "Consumer groups",
                el.form(el.Form("groups-filter", "/groups", "Which groups", fields)),
                _table(shown, view.now_ms) if chosen else _nothing(bool(every), q, asked.get("cluster", "")),
                page_links(shown, "/groups", asked, "Pages of groups"),
            ),
        ],
        className="page",
    )


def _tell(groups: list[GroupRow]) -> str:
    wrong = [one for one in groups if one.wrong]
    unknown = sum(1 for one in groups if one.unknown)
    firing = sum(1 for one in groups if one.firing)
    words = [f"{counted(len(groups), 'group')}"]
    if wrong:
        queues = counted(sum(one.wrong for one in wrong), "queue")
        words.append(f"{len(wrong):,} with {queues} starved, silent, doubled or misplaced")
    else:
        words.append("no queue of theirs is starved, silent, doubled or misplaced")
    if unknown:
        words.append(f"{unknown:,} of which too little was seen")
    if firing:
        words.append(f"alerts fire about {firing:,}")
    return "; ".join(words) + "."


def _nothing(are_there_any: bool, q: str, cluster: str) -> Component:
    if are_there_any:
        return el.empty(f"No group's name has {q!r}.")
    if cluster:
        return el.empty(f"Cluster {cluster} is known, and no group of it that lives.")
    return el.empty("No group is known yet: no heartbeat of a consumer and no pull has come.")


def _table(shown: Slice[GroupRow], now_ms: int) -> Component:
    rows = [el.Row(f"{one.cluster}/{one.consumer_group}", _cells(one, now_ms), _look(one)) for one in shown.items]
    return el.table("groups", f"{shown.tell('group')}, worst first", COLUMNS, rows)


def _look(one: GroupRow) -> str:
    return f"row-{one.worst.lower()}"


def _cells(one: GroupRow, now_ms: int) -> list[el.Children]:
    counts = (one.starved, one.silent, one.doubled, one.misplaced, one.unknown)
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
    body,
    nav="Groups",
    parameters=frozenset({"cluster", "q", "page"}),
    tables=frozenset({"alerts", "assignments", "broker_health", "fault_items", "memberships"}),
)
