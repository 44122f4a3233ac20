"""The groups page: all consumer groups, worst first, with their verdicts, members and firing alerts."""

from typing import Any

from streaming.board.known import read_cluster_names
from streaming.board.page import Page, View
from streaming.board.url import read_choice, slice_of
from streaming.board.words import WORST_FIRST, WRONG
from streaming.store.store import History
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.groups.queue_state import NOT_JUDGED, OK, UNKNOWN

_COUNTS = {name.lower(): f"count(*) FILTER (verdict = '{name}')" for name in WORST_FIRST}
"""Number of queues of each verdict, by column."""

_NUMBERS = ("queues", "topics", "members", *_COUNTS, "firing")

_SQL = f"""
WITH counted AS (
    SELECT
        cluster,
        consumer_group,
        count(*) AS queues,
        count(DISTINCT topic) AS topics,
        {", ".join(f"{number} AS {name}" for name, number in _COUNTS.items())},
        bool_and(
            verdict = 'NOT_JUDGED' AND planned_owner IS NULL AND len(coalesce(observed_owners, [])) = 0
        ) AS is_unowned,
        min(epoch_ms(since)) FILTER (verdict IN {WRONG}) AS wrong_since_ms
    FROM assignments_now
    GROUP BY ALL
), listed AS (
    SELECT cluster, consumer_group, count(DISTINCT client_id) AS members
    FROM memberships_now WHERE change IN ('JOINED', 'CHANGED') GROUP BY ALL
), fired AS (
    SELECT
        cluster,
        consumer_group,
        count(*) FILTER (inhibited_by IS NULL) AS firing,
        arg_min(incident_id, started_at) FILTER (inhibited_by IS NULL) AS incident_id,
        arg_min(kind, started_at) FILTER (inhibited_by IS NULL) AS kind
    FROM alerts_now
    WHERE state = 'FIRING' AND consumer_group IS NOT NULL
    GROUP BY ALL
), known AS (
    SELECT cluster, consumer_group FROM counted UNION SELECT cluster, consumer_group FROM listed
), rows AS (
    SELECT
        cluster,
        consumer_group,
        {", ".join(f"coalesce({name}, 0) AS {name}" for name in _NUMBERS)},
        wrong_since_ms,
        incident_id,
        kind
    FROM known
    LEFT JOIN counted USING (cluster, consumer_group)
    LEFT JOIN listed USING (cluster, consumer_group)
    LEFT JOIN fired USING (cluster, consumer_group)
    WHERE ($cluster = '' OR cluster = $cluster) AND ($cluster = $canary OR cluster <> $canary)
        AND (members > 0 OR firing > 0 OR NOT coalesce(is_unowned, false))
)
SELECT
    *,
    {" + ".join(name.lower() for name in WRONG)} AS wrong,
    CASE {" ".join(f"WHEN {name.lower()} > 0 THEN '{name}'" for name in (*WRONG, UNKNOWN, OK))} ELSE '{NOT_JUDGED}' END
        AS worst
FROM rows
ORDER BY firing > 0 DESC, unowned DESC, not_consumed DESC, double_consumed DESC, misplaced DESC, unknown DESC, cluster,
    consumer_group
"""


def read_groups(history: History, cluster: str = "") -> list[dict[str, Any]]:
    """Return all groups, or one cluster's, worst first; the canary's only if its cluster is named.

    Each has counts of its queues by verdict, the number of those with a problem (`wrong`), the worst verdict, and its
    oldest firing incident that is not inhibited. It is NOT_JUDGED if no queue has a problem and none is OK.

    Groups that have gone are left out: no members, all queues NOT_JUDGED without owner, and no firing alert.
    """
    return history.rows(_SQL, {"cluster": cluster, "canary": CANARY_CLUSTER})


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
    tables=frozenset({"alerts", "assignments", "broker_health", "fault_items", "memberships"}),
)
