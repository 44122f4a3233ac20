"""The groups page: all consumer groups, worst first, with their verdicts, members and firing alerts."""

from operator import itemgetter
from typing import Any

from streaming.board.known import read_cluster_names
from streaming.board.page import Page, View
from streaming.board.url import SortKeys, read_choice, slice_of, sort_rows
from streaming.board.words import RANK
from streaming.store.current import read_groups
from udfs.alerts.phrase import phrase

GROUPS_A_PAGE = 50
MOST_SUGGESTED = 200

_NUMBERS = ("unowned", "not_consumed", "double_consumed", "misplaced", "unknown", "queues", "members", "firing")

SORT: SortKeys = {
    "group": itemgetter("consumer_group"),
    "verdict": lambda group: -RANK[group["worst"]],
    "since": itemgetter("wrong_since_ms"),
    "backlog": lambda group: group["backlog"] or 0,
    **{name: itemgetter(name) for name in _NUMBERS},
}


def read(view: View) -> dict[str, Any]:
    """Return the values of the page: `chosen` groups by the URL's name and cluster, and `shown`, the requested page.

    `clusters` are the options of the filter, `names` suggestions. `is_empty`: the cluster has no group.
    """
    asked, cluster = view.asked, view.asked.get("cluster", "")
    every, clusters = read_groups(view.history, cluster), read_cluster_names(view.history)
    if cluster and not every:
        read_choice(asked, "cluster", clusters)
    name = asked.get("q", "").lower()
    chosen = [group for group in every if name in group["consumer_group"].lower()]
    shown = slice_of(sort_rows(chosen, asked, SORT), asked, GROUPS_A_PAGE)
    names = sorted({group["consumer_group"] for group in every})[:MOST_SUGGESTED]
    filters = {"asked": asked, "cluster": cluster, "clusters": clusters, "names": names}
    return {**filters, "chosen": chosen, "shown": shown, "is_empty": not every}


PAGE = Page(
    "groups",
    "/groups",
    phrase("Groups"),
    read,
    nav=phrase("Groups"),
    parameters=frozenset({"cluster", "q", "sort", "page"}),
    tables=frozenset({"alerts", "assignments", "backlogs", "broker_health", "fault_items", "memberships"}),
)
