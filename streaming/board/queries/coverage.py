"""Coverage: each table's newest row, and each cluster's brokers with data and queues by verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schemas.tables import TABLES
from streaming.store.freshness import LIVE_TABLES
from streaming.store.store import History
from udfs.alerts.rulebook import CANARY_CLUSTER

MOST_GROUPS = 12

TROUBLED = ("UNOWNED", "NOT_CONSUMED", "DOUBLE_CONSUMED", "MISPLACED", "UNKNOWN")


@dataclass(frozen=True)
class TableAge:
    """Time of a table's newest row, including the canary's; None for an empty table."""

    name: str
    newest_ms: int | None


@dataclass(frozen=True)
class ClusterCoverage:
    """One cluster: its brokers, those without data now, its groups, and its queues by verdict."""

    cluster: str
    brokers: int
    without_data: tuple[str, ...]
    is_without_data: bool
    """Whether none of its brokers sends data."""
    groups: int
    queues: int
    unknown: int
    not_judged: int
    completeness: float | None
    """The least completeness among UNKNOWN verdicts, open alerts and the newest change."""
    newest_ms: int | None


@dataclass(frozen=True)
class GroupTrouble:
    """A group with problems: its queues by verdict."""

    cluster: str
    consumer_group: str
    queues: int
    verdicts: Mapping[str, int]


def read_ages(history: History) -> list[TableAge]:
    """Return the age of every table, in the order of TABLES."""
    each = " UNION ALL ".join(
        f"SELECT '{table.name}' AS name, max({table.time}) AS newest FROM {table.name}" for table in TABLES.values()
    )
    found = {row["name"]: row["ms"] for row in history.rows(f"SELECT name, epoch_ms(newest) AS ms FROM ({each})")}
    return [TableAge(name, found[name]) for name in TABLES]


def newest_ms(ages: Sequence[TableAge], now_ms: int) -> int | None:
    """Return the newest row's time among the live tables; a row from the future counts as now."""
    live = {table.name for table in LIVE_TABLES}
    known = [age.newest_ms for age in ages if age.name in live and age.newest_ms is not None]
    return min(max(known), now_ms) if known else None


def read_clusters(history: History) -> list[ClusterCoverage]:
    """Return all clusters by name, without the canary's."""
    rows = history.rows(
        """
        WITH queues AS (
            SELECT cluster, count(*) AS queues, count(DISTINCT consumer_group) AS groups,
                count(*) FILTER (verdict = 'UNKNOWN') AS unknown,
                count(*) FILTER (verdict = 'NOT_JUDGED') AS not_judged
            FROM assignments_now GROUP BY cluster
        ), brokers AS (
            SELECT cluster, count(DISTINCT broker_name) AS brokers FROM (
                SELECT cluster, broker_name FROM assignments UNION SELECT cluster, broker_name FROM memberships
                UNION SELECT cluster, broker_name FROM broker_health
            ) GROUP BY cluster
        ), without_data AS (
            SELECT cluster, list_sort(list(DISTINCT broker_name) FILTER (kind = 'broker_no_data')) AS without_data,
                bool_or(kind = 'cluster_no_data' AND NOT coalesce(labels, '') LIKE '%"collector":%') AS is_without_data
            FROM alerts_now WHERE kind IN ('broker_no_data', 'cluster_no_data') AND state <> 'RESOLVED' GROUP BY cluster
        ), newest AS (
            SELECT cluster, max(changed_at) AS newest, arg_max(completeness, changed_at) AS completeness FROM (
                SELECT cluster, changed_at, completeness FROM assignments
                UNION ALL SELECT cluster, changed_at, completeness FROM alerts
                UNION ALL SELECT cluster, changed_at, NULL FROM memberships
                UNION ALL SELECT cluster, changed_at, NULL FROM broker_health
            ) GROUP BY cluster
        ), doubtful AS (
            SELECT cluster, min(completeness) AS least FROM (
                SELECT cluster, completeness FROM assignments_now WHERE verdict = 'UNKNOWN'
                UNION ALL SELECT cluster, completeness FROM alerts_now WHERE state <> 'RESOLVED'
            ) GROUP BY cluster
        )
        SELECT newest.cluster, coalesce(brokers, 0) AS brokers, coalesce(without_data, []) AS without_data,
            coalesce(is_without_data, false) AS is_without_data, coalesce(groups, 0) AS groups, coalesce(queues, 0) AS
            queues, coalesce(unknown, 0) AS unknown, coalesce(not_judged, 0) AS not_judged, least(completeness,
            doubtful.least) AS completeness, epoch_ms(newest) AS newest_ms
        FROM newest LEFT JOIN brokers USING (cluster) LEFT JOIN queues USING (cluster) LEFT JOIN without_data USING
        (cluster)
            LEFT JOIN doubtful USING (cluster)
        WHERE newest.cluster <> $canary ORDER BY newest.cluster
        """,
        {"canary": CANARY_CLUSTER},
    )
    return [
        ClusterCoverage(**{**row, "without_data": tuple(one for one in row["without_data"] if one)}) for row in rows
    ]


def read_cluster_names(history: History) -> list[str]:
    """Return the clusters of all live tables, without the canary's."""
    each = " UNION ".join(f"SELECT cluster FROM {table.name}" for table in LIVE_TABLES)
    rows = history.rows(
        f"SELECT DISTINCT cluster FROM ({each}) WHERE cluster <> $canary ORDER BY 1", {"canary": CANARY_CLUSTER}
    )
    return [row["cluster"] for row in rows]


def read_troubled_groups(history: History) -> tuple[list[GroupTrouble], int]:
    """Return the worst groups, those with most unconsumed queues first, and the number of all groups with problems."""
    rows = history.rows(
        f"""
        SELECT cluster, consumer_group, count(*) AS queues,
            {", ".join(f"count(*) FILTER (verdict = '{one}') AS {one}" for one in TROUBLED)},
            count(*) OVER () AS troubled
        FROM assignments_now WHERE cluster <> $canary GROUP BY cluster, consumer_group
        HAVING {" + ".join(TROUBLED)} > 0
        ORDER BY UNOWNED + NOT_CONSUMED DESC, DOUBLE_CONSUMED + MISPLACED DESC, UNKNOWN DESC, cluster, consumer_group
        LIMIT $most
        """,
        {"canary": CANARY_CLUSTER, "most": MOST_GROUPS},
    )
    groups = [
        GroupTrouble(
            row["cluster"], row["consumer_group"], row["queues"], {one: row[one] for one in TROUBLED if row[one]}
        )
        for row in rows
    ]
    return groups, rows[0]["troubled"] if rows else 0
