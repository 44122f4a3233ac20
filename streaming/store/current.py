"""The newest state, for the board and the commands: open incidents, clusters, groups and brokers, and deliveries."""

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from schemas.tables import ALERTS, ASSIGNMENTS, MEMBERSHIPS, Table
from schemas.views import MOST_SEVERE_FIRST, acknowledged_sql
from streaming.store.freshness import LIVE_TABLES
from streaming.store.store import History
from streaming.text.times import MINUTE, to_ms, to_time
from udfs.alerts.pattern import read_matchers
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.alerts.silence import Quiet, Silence, pick_silence
from udfs.alerts.static_labels import LabelRules, pick_static_labels
from udfs.groups.queue_state import NOT_JUDGED, OK, UNKNOWN, WORST_FIRST, WRONG

MOST_FIRING = 20

NAMED_BY: Mapping[str, Mapping[Table, str]] = {
    "cluster": dict.fromkeys(LIVE_TABLES, "cluster"),
    "group": {ALERTS: "consumer_group", ASSIGNMENTS: "consumer_group", MEMBERSHIPS: "consumer_group"},
    "topic": {ALERTS: "topic", ASSIGNMENTS: "topic", MEMBERSHIPS: "unnest(topics)"},
    "broker": {
        ALERTS: "unnest(string_split(broker_name, ','))",
        **{table: "broker_name" for table in LIVE_TABLES if table is not ALERTS},
    },
}
"""Option to the tables, and their columns, that know its names."""


def read_names(history: History, option: str) -> set[str]:
    """Return the names of all time that the tables have for an option of NAMED_BY."""
    union = " UNION ".join(f"SELECT {column} AS name FROM {table.name}" for table, column in NAMED_BY[option].items())
    return {row["name"] for row in history.rows(f"SELECT DISTINCT name FROM ({union}) WHERE name <> ''")}


LATE_MS = 2 * MINUTE
"""Time within which the relay processes an alert, and sends what is due."""


def read_silences(history: History) -> list[Silence]:
    """Return the newest row of each silence. Unreadable ones silence nothing; `silence list` shows them."""
    silences = []
    for row in history.rows("SELECT * FROM silences_now ORDER BY starts_at, silence_id"):
        with suppress(ValueError):
            author, span = (row["created_by"], row["comment"]), (to_ms(row["starts_at"]), to_ms(row["ends_at"]))
            silences.append(Silence(row["silence_id"], read_matchers(row["matchers"]), *author, *span))
    return silences


def read_incidents(
    history: History, quiets: Iterable[Quiet], now_ms: int, where: str, params: Mapping[str, Any], labels: LabelRules
) -> list[dict[str, Any]]:
    """Return the newest row of incidents, the worst first: those that fire and are not inhibited, by severity.

    Each has `acknowledged_by`, `static_labels` as JSON, and `silence_id` and `silenced_by` of an active silence of
    `quiets` that covers it.
    """
    rows = history.rows(
        f"SELECT * FROM alerts_now LEFT JOIN ({acknowledged_sql()}) USING (incident_id) WHERE {where} "
        f"ORDER BY state <> 'FIRING' OR inhibited_by IS NOT NULL, {MOST_SEVERE_FIRST}, state <> 'FIRING', "
        "started_at DESC, incident_id",
        params,
    )
    active = [silence for quiet in quiets if (silence := quiet.at(now_ms)) is not None]
    for row in rows:
        static = pick_static_labels(labels, row)
        silence = pick_silence(active, {**static, **row}, now_ms)
        row["static_labels"] = json.dumps(static)
        row["silence_id"], row["silenced_by"] = silence and silence.silence_id, silence and silence.created_by
    return rows


def read_deliveries(history: History, receivers: Collection[str], now_ms: int) -> list[dict[str, Any]]:
    """Return each of these receivers: its newest attempt and success, notifications due, and its state.

    The state is FAILING if the newest attempt failed, LATE if a notification has been due for LATE_MS, UNUSED without
    any row, or else OK.
    """
    return history.rows(
        """
        WITH log AS (
            SELECT * FROM alert_deliveries WHERE list_contains($receivers, receiver)
        ), due AS (
            SELECT receiver, count(*) AS due, min(delivered_at) AS due_since FROM (
                SELECT DISTINCT ON (incident_id, receiver) receiver, outcome, delivered_at FROM log
                ORDER BY incident_id, receiver, delivered_at DESC, batch_id DESC
            ) WHERE outcome IN ('PENDING', 'RETRYING') GROUP BY receiver
        ), tried AS (
            SELECT receiver, max(delivered_at) FILTER (outcome = 'DELIVERED') AS delivered_at,
                arg_max(struct_pack(outcome, reason), (delivered_at, batch_id)) FILTER (attempt > 0) AS newest
            FROM log GROUP BY receiver
        )
        SELECT receiver, CASE WHEN tried.receiver IS NULL THEN 'UNUSED'
                WHEN newest.outcome IN ('RETRYING', 'REFUSED') THEN 'FAILING'
                WHEN due_since < $late THEN 'LATE' ELSE 'OK' END AS state,
            delivered_at, coalesce(due, 0) AS due,
            CASE WHEN newest.outcome IN ('RETRYING', 'REFUSED') THEN newest.reason END AS reason
        FROM (SELECT unnest($receivers::VARCHAR[]) AS receiver) LEFT JOIN tried USING (receiver)
            LEFT JOIN due USING (receiver)
        ORDER BY state NOT IN ('FAILING', 'LATE'), receiver
        """,
        {"receivers": list(receivers), "late": to_time(now_ms - LATE_MS)},
    )


def count_unprocessed(history: History, now_ms: int) -> int:
    """Return how many alerts that page have fired for LATE_MS while no relay processed them."""
    (found,) = history.rows(
        "SELECT count(*) AS n FROM firing WHERE severity <> 'info' AND changed_at < $late "
        "AND incident_id NOT IN (SELECT incident_id FROM alert_deliveries)",
        {"late": to_time(now_ms - LATE_MS)},
    )
    return int(found["n"])


def read_trouble(history: History, lately_from_ms: int) -> dict[str, Any]:
    """Return all open incidents: the first of those that fire, the number of all that fire, and counts by other states.

    Those that are inhibited are not in `firing`. There `effects` counts the open incidents that one inhibits, by kind.
    `resolved_lately` counts all that resolved after `lately_from_ms`, fired or not.
    """
    (counts,) = history.rows(
        """
        SELECT count(*) FILTER (state = 'FIRING' AND inhibited_by IS NULL) AS firing_count,
            count(*) FILTER (state = 'FIRING' AND inhibited_by IS NOT NULL) AS inhibited_count,
            count(*) FILTER (
                state = 'RESOLVED' AND changed_at >= make_timestamptz($lately_from_ms * 1000)
            ) AS resolved_lately,
            histogram(state) FILTER (state NOT IN ('FIRING', 'RESOLVED')) AS states
        FROM alerts_now WHERE cluster <> $canary
        """,
        {"canary": CANARY_CLUSTER, "lately_from_ms": lately_from_ms},
    )
    return {"firing": _read_firing(history), **counts, "states": dict(counts["states"] or ())}


def _read_firing(history: History) -> list[dict[str, Any]]:
    rows = history.rows(
        f"""
        SELECT incident_id, kind, severity, cause, cluster, consumer_group, topic, broker_name, client_id, summary,
            advice, coalesce(is_flapping, false) AS is_flapping, epoch_ms(coalesce(fired_at, changed_at)) AS fired_ms,
            acknowledged_by
        FROM firing LEFT JOIN ({acknowledged_sql()}) USING (incident_id)
        ORDER BY {MOST_SEVERE_FIRST}, fired_ms DESC, incident_id LIMIT $most
        """,
        {"most": MOST_FIRING},
    )
    if not rows:
        return []
    effects: dict[str, dict[str, int]] = {}
    for row in history.rows(
        "SELECT inhibited_by, kind, count(*) AS n FROM alerts_now "
        "WHERE list_contains($ids, inhibited_by) AND state <> 'RESOLVED' GROUP BY ALL ORDER BY n DESC, kind",
        {"ids": [row["incident_id"] for row in rows]},
    ):
        effects.setdefault(row["inhibited_by"], {})[row["kind"]] = row["n"]
    return [row | {"effects": effects.get(row["incident_id"], {})} for row in rows]


def read_clusters(history: History) -> list[dict[str, Any]]:
    """Return all clusters by name, without the canary's: brokers, those without data, firing alerts, groups, queues.

    `is_without_data`: none of its brokers sends data. `completeness` is the least among UNKNOWN verdicts, open alerts
    and the newest change.
    """
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
        ), fired AS (
            SELECT cluster, count(*) AS firing FROM firing GROUP BY cluster
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
            coalesce(is_without_data, false) AS is_without_data, coalesce(firing, 0) AS firing,
            coalesce(groups, 0) AS groups, coalesce(queues, 0) AS queues, coalesce(unknown, 0) AS unknown,
            coalesce(not_judged, 0) AS not_judged, least(completeness, doubtful.least) AS completeness,
            epoch_ms(newest) AS newest_ms
        FROM newest LEFT JOIN brokers USING (cluster) LEFT JOIN queues USING (cluster) LEFT JOIN fired USING (cluster)
            LEFT JOIN without_data USING (cluster) LEFT JOIN doubtful USING (cluster)
        WHERE newest.cluster <> $canary ORDER BY newest.cluster
        """,
        {"canary": CANARY_CLUSTER},
    )
    return [row | {"without_data": [*filter(None, row["without_data"])]} for row in rows]


_COUNTS = {name.lower(): f"count(*) FILTER (verdict = '{name}')" for name in WORST_FIRST}
"""Number of queues of each verdict, by column."""

BACKLOG_SQL = "least(sum(messages), 9223372036854775807)::BIGINT"
"""Messages of several rows of `backlogged_queues`."""

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
), behind AS (
    SELECT cluster, consumer_group, {BACKLOG_SQL} AS backlog, epoch_ms(max(changed_at)) AS backlog_changed_ms
    FROM backlogged_queues GROUP BY ALL
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
        backlog,
        backlog_changed_ms,
        wrong_since_ms,
        incident_id,
        kind
    FROM known
    LEFT JOIN counted USING (cluster, consumer_group)
    LEFT JOIN behind USING (cluster, consumer_group)
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
    oldest firing incident that is not inhibited. It is NOT_JUDGED if no queue has a problem and none is OK. `backlog`
    sums the queues with 1,000 messages or more, None without any; `backlog_changed_ms` is their newest change.

    Groups that have gone are left out: no members, all queues NOT_JUDGED without owner, and no firing alert.
    """
    return history.rows(_SQL, {"cluster": cluster, "canary": CANARY_CLUSTER})


def read_brokers(history: History) -> list[dict[str, Any]]:
    """Return all brokers, the worst first, without the canary's: producers that avoid it now, until when, and alerts.

    `firing` counts the alerts about the broker itself, of which `incident_id` and `kind` are the oldest. The state is
    NO_DATA, AVOIDED or OK.
    """
    return history.rows(
        """
        WITH about AS (
            SELECT cluster, unnest(string_split(broker_name, ',')) AS broker_name, incident_id, kind, started_at,
                state = 'FIRING' AND inhibited_by IS NULL AS is_firing
            FROM alerts_now WHERE consumer_group IS NULL AND broker_name IS NOT NULL AND state <> 'RESOLVED'
        ), alerted AS (
            SELECT cluster, broker_name, count(*) FILTER (is_firing) AS firing,
                arg_min(incident_id, started_at) FILTER (is_firing) AS incident_id,
                arg_min(kind, started_at) FILTER (is_firing) AS kind,
                bool_or(kind = 'broker_no_data') AS is_without_data
            FROM about GROUP BY ALL
        ), known AS (
            SELECT cluster, broker_name FROM assignments UNION SELECT cluster, broker_name FROM memberships
            UNION SELECT cluster, broker_name FROM broker_health UNION SELECT cluster, broker_name FROM alerted
        )
        SELECT cluster, broker_name, CASE WHEN is_without_data THEN 'NO_DATA' WHEN unavailable_producers > 0
                THEN 'AVOIDED' ELSE 'OK' END AS state,
            coalesce(firing, 0) AS firing, coalesce(unavailable_producers, 0) AS avoiding,
            coalesce(producers, 0) AS producers, unavailable_until AS avoided_until, incident_id, kind
        FROM known LEFT JOIN broker_health_now USING (cluster, broker_name)
            LEFT JOIN alerted USING (cluster, broker_name)
        WHERE cluster <> $canary AND broker_name <> ''
        ORDER BY firing > 0 DESC, state = 'OK', cluster, broker_name
        """,
        {"canary": CANARY_CLUSTER},
    )
