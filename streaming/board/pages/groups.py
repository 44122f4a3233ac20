"""The groups page: all consumer groups, worst first, with their verdicts, members and firing alerts."""

from typing import Any

from streaming.board.known import read_cluster_names
from streaming.board.page import Page, View
from streaming.board.url import read_choice, slice_of
from streaming.store.current import read_groups

GROUPS_A_PAGE = 50


def read(view: View) -> dict[str, Any]:
    """Return the values of the page: `chosen` groups by the URL's name and cluster, and `shown`, the requested page.

    `clusters` are the options of the filter. `is_empty`: the cluster has no group.
    """
    asked, cluster = view.asked, view.asked.get("cluster", "")
    every, clusters = read_groups(view.history, cluster), read_cluster_names(view.history)
    if cluster and not every:
        read_choice(asked, "cluster", clusters)
    name = asked.get("q", "").lower()
    chosen = [group for group in every if name in group["consumer_group"].lower()]
    shown = slice_of(chosen, asked, GROUPS_A_PAGE)
    names = {"asked": asked, "cluster": cluster, "clusters": clusters}
    return {**names, "chosen": chosen, "shown": shown, "is_empty": not every}


PAGE = Page(
    "groups",
    "/groups",
    "Groups",
    read,
    nav="Groups",
    parameters=frozenset({"cluster", "q", "page"}),
    tables=frozenset({"alerts", "assignments", "backlogs", "broker_health", "fault_items", "memberships"}),
)
