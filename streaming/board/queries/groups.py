"""All consumer groups, worst first: queues by verdict, members, and firing alerts."""

from dataclasses import dataclass

from streaming.board.queries.verdict_order import WRONG
from streaming.store.store import History
from udfs.alerts.rulebook import CANARY_CLUSTER

_SQL = """
WITH counted AS (
    SELECT
        cluster,
        consumer_group,
        count(*) AS queues,
        count(DISTINCT topic) AS topics,
        count(*) FILTER (verdict = 'UNOWNED') AS unowned,
        count(*) FILTER (verdict = 'NOT_CONSUMED') AS not_consumed,
        count(*) FILTER (verdict = 'DOUBLE_CONSUMED') AS double_consumed,
        count(*) FILTER (verdict = 'MISPLACED') AS misplaced,
        count(*) FILTER (verdict = 'UNKNOWN') AS unknown,
        count(*) FILTER (verdict = 'NOT_JUDGED') AS not_judged,
        count(*) FILTER (verdict = 'OK') AS ok,
        bool_and(
            verdict = 'NOT_JUDGED' AND planned_owner IS NULL AND len(coalesce(observed_owners, [])) = 0
        ) AS is_unowned,
        min(epoch_ms(since)) FILTER (verdict IN {wrong}) AS wrong_since_ms
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
        coalesce(queues, 0) AS queues,
        coalesce(topics, 0) AS topics,
        coalesce(members, 0) AS members,
        coalesce(unowned, 0) AS unowned,
        coalesce(not_consumed, 0) AS not_consumed,
        coalesce(double_consumed, 0) AS double_consumed,
        coalesce(misplaced, 0) AS misplaced,
        coalesce(unknown, 0) AS unknown,
        coalesce(not_judged, 0) AS not_judged,
        coalesce(ok, 0) AS ok,
        wrong_since_ms,
        coalesce(firing, 0) AS firing,
        incident_id,
        kind
    FROM known
    LEFT JOIN counted USING (cluster, consumer_group)
    LEFT JOIN listed USING (cluster, consumer_group)
    LEFT JOIN fired USING (cluster, consumer_group)
    WHERE ($cluster = '' OR cluster = $cluster) AND ($cluster = $canary OR cluster <> $canary)
        AND (members > 0 OR firing > 0 OR NOT coalesce(is_unowned, false))
)
FROM rows
ORDER BY firing > 0 DESC, unowned DESC, not_consumed DESC, double_consumed DESC, misplaced DESC, unknown DESC, cluster,
    consumer_group
"""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group: counts of its queues by verdict, and its oldest firing incident that is not inhibited."""

    cluster: str
    consumer_group: str
    queues: int
    topics: int
    members: int
    unowned: int
    not_consumed: int
    double_consumed: int
    misplaced: int
    unknown: int
    not_judged: int
    ok: int
    wrong_since_ms: int | None
    firing: int
    incident_id: str | None
    kind: str | None

    @property
    def wrong(self) -> int:
        """Number of queues with a problem."""
        return self.unowned + self.not_consumed + self.double_consumed + self.misplaced

    @property
    def worst(self) -> str:
        """The worst verdict among its queues; NOT_JUDGED if no queue has a problem and none is OK."""
        counts = {
            "UNOWNED": self.unowned,
            "NOT_CONSUMED": self.not_consumed,
            "DOUBLE_CONSUMED": self.double_consumed,
            "MISPLACED": self.misplaced,
            "UNKNOWN": self.unknown,
        }
        return next((name for name, number in counts.items() if number), "OK" if self.ok else "NOT_JUDGED")


def read_groups(history: History, cluster: str = "") -> list[GroupRow]:
    """Return all groups, or one cluster's, worst first; the canary's only if its cluster is named.

    Groups that have gone are left out: no members, all queues NOT_JUDGED without owner, and no firing alert.
    """
    sql = _SQL.format(wrong=WRONG)
    rows = history.query(sql, {"cluster": cluster, "canary": CANARY_CLUSTER}).to_pylist()
    return [GroupRow(**row) for row in rows]
