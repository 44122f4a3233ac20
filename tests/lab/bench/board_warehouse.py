"""A warehouse as a large installation has it: SQL makes up the rows of its tables, the same for the same sizes.

1,000 groups of ten queues and five members, one more group of 10,000 queues, a day of moves; in every fiftieth group
queues have a wrong verdict now. 200 brokers are avoided by turns by fifty producers. Half of the incidents are open.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

from schemas.tables import TABLES
from streaming.warehouse.rows import arrow_schema
from streaming.warehouse.tables import table_path
from tests.support.row_writer import create_tables

CLUSTER = "prod-1"
GIANT = "giant"
COMMIT_ROWS = 20_000


@dataclass(frozen=True)
class Size:
    """How large the warehouse is; `assignment_rows` is the length of its history."""

    groups: int = 1_000
    queues_per_group: int = 10
    members_per_group: int = 5
    giant_queues: int = 10_000
    giant_members: int = 500
    assignment_rows: int = 1_000_000
    broker_rows: int = 40_000
    incidents: int = 10_000
    quarantined: int = 50_000


SHARED = """
CREATE MACRO broker(n) AS format('broker-{:03d}', n % 200);
CREATE MACRO host(g, m) AS format('10.{}.{}.{}', g // 250, g % 250, m % 250 + 1);
CREATE MACRO client_id(g, m) AS format('{}@{}#{}', host(g, m), 4000 + m, 70511902733401 + g * 997 + m);
CREATE TABLE groups AS
    SELECT g, format('group-{:04d}', g) AS name, format('topic-{:03d}', g % 400) AS topic,
        queues_per_group AS queues, members_per_group AS members, false AS is_giant
    FROM size, unnest(range(groups)) AS numbers(g)
    UNION ALL SELECT groups, 'giant', 'firehose', giant_queues, giant_members, true FROM size;
"""
"""`size` is a table of one row: the fields of Size, and `end_ms` and `start_ms` of the day."""

ROWS: Mapping[str, str] = {
    # Each queue moves between two members by turns; at the end some of every fiftieth group are wrong.
    "assignments": """
        WITH moves AS (SELECT assignment_rows // (SELECT sum(queues) FROM groups)::BIGINT AS moves FROM size),
        moved AS (
            SELECT *, client_id(g, (queue + move) % members) AS owner,
                client_id(g, (queue + move + 1) % members) AS other,
                move = moves - 1 AND if(is_giant, queue % 97 = 0, g % 50 = 7 AND queue % 3 = 0) AS is_wrong,
                ['UNOWNED', 'NOT_CONSUMED', 'DOUBLE_CONSUMED', 'MISPLACED'][(g // 50 + queue) % 4 + 1] AS wrong,
                start_ms + ((move + hash(g, queue, move) / pow(2, 64)) * 82_800_000 / moves)::BIGINT AS moment
            FROM size, moves, groups, unnest(range(queues)) AS q(queue), unnest(range(moves)) AS m(move)
        )
        SELECT 'prod-1' AS cluster, name AS consumer_group, topic, if(is_wrong, wrong, 'OK') AS verdict,
            broker(if(is_giant, queue, g + queue % 2)) AS broker_name, queue // if(is_giant, 200, 2) AS queue_id,
            if(verdict = 'UNOWNED', NULL, owner) AS planned_owner,
            CASE verdict WHEN 'OK' THEN [owner] WHEN 'DOUBLE_CONSUMED' THEN [owner, other]
                WHEN 'MISPLACED' THEN [other] ELSE [] END AS observed_owners,
            1.0 AS completeness, moment AS since, moment AS changed_at
        FROM moved ORDER BY moment""",
    "memberships": """
        SELECT 'prod-1' AS cluster, name AS consumer_group, broker(g + view) AS broker_name,
            client_id(g, member) AS client_id, format('{}:{}', host(g, member), 30000 + member + view) AS client_addr,
            'JAVA' AS language, 'V4_9_8' AS client_version, [topic] AS topics, 'AVG' AS strategy, 'JOINED' AS change,
            end_ms - 20_000 AS last_heartbeat, start_ms + member * 1000 AS changed_at
        FROM size, groups, unnest(range(members)) AS m(member), unnest(range(2)) AS v(view)
        ORDER BY g, member, view""",
    # Four rows an incident over a day, every second one open, every sixth an effect of the first.
    "alerts": """
        WITH incidents AS (
            SELECT *, start_ms + n * (86_400_000 - 60_000) // incidents AS moment
            FROM size, unnest(range(incidents)) AS i(n)
        ),
        states AS (
            SELECT *, unnest([
                {'state': 'PENDING', 'time_ms': moment},
                {'state': 'FIRING', 'time_ms': moment + 10_000},
                {'state': 'FIRING', 'time_ms': moment + 20_000},
                if(n % 2 = 0, {'state': 'FIRING', 'time_ms': moment + 30_000},
                    {'state': 'RESOLVED', 'time_ms': least(end_ms, moment + 600_000)})
            ], recursive := true)
            FROM incidents
        )
        SELECT format('incident-{:05d}', n) AS alert_id, alert_id AS incident_id,
            ['starved_queue', 'duplicate_client_id', 'double_consumed_queue', 'split_view', 'broker_isolated',
                'group_offline'][n % 6 + 1] AS kind,
            ['critical', 'error', 'warning'][n % 3 + 1] AS severity, state, 'hold_over' AS reason,
            'frozen_client' AS cause, format('prod-{}', n % 4) AS cluster,
            format('group-{:04d}', n % 1000) AS consumer_group, 'orders' AS topic,
            [format('{}:{}', broker(n), queue) for queue in range(4)] AS queues,
            format('No client consumes 4 queues of topic orders in group {} since a while ago: it froze.',
                consumer_group) AS summary,
            'Check 10.20.0.12@5120#81203344120874 (full GC, swapped out, suspended?) and restart it.' AS advice,
            '{"client_addr": "10.20.0.12:5120"}' AS evidence,
            if(n % 6 = 4, 'incident-00000', NULL) AS inhibited_by, moment AS started_at,
            if(state = 'PENDING', NULL, moment + 10_000) AS fired_at, time_ms AS changed_at
        FROM states ORDER BY n, time_ms""",
    "broker_health": """
        SELECT 'prod-1' AS cluster, broker((hash(n) % 200)::INT) AS broker_name, hash(n, 1) % 50 AS avoiders,
            if(avoiders % 3 > 0, 0, avoiders) AS unavailable_producers, 50 AS producers,
            start_ms + n * 86_400_000 // broker_rows AS changed_at,
            if(unavailable_producers > 0, changed_at + 30_000, NULL) AS unavailable_until
        FROM size, unnest(range(broker_rows)) AS r(n) ORDER BY n""",
    "fault_items": """
        SELECT 'prod-1' AS cluster, broker(n) AS broker_name, format('10.9.0.{0}@{1}#{0}', p, 6000 + p) AS client_id,
            if(p % 4 > 0, 'V4_9_8', 'V5_1_4') AS client_version, 550 + hash(n, p) % 3450 AS current_latency_ms,
            p % 7 = 0 AS isolation, end_ms + 30_000 AS start_timestamp, available,
            (end_ms - hash(p, n) % 86_400_000 + if(available, 30_000, 0))::BIGINT AS changed_at
        FROM size, unnest(range(200)) AS b(n), unnest(range(50)) AS r(p), unnest([false, true]) AS a(available)
        WHERE NOT (available AND n % 20 = 3 AND p % 5 = 0) ORDER BY n, p, available""",
    "quarantine": """
        SELECT 'rocketmq.pulls' AS topic, 0 AS partition, n AS offset, repeat('x', 400)::BLOB AS raw,
            [['not_json', 'missing: topic', 'too_large'][n % 3 + 1]] AS reasons,
            (start_ms + hash(n) % 86_400_000)::BIGINT AS ingest_time
        FROM size, unnest(range(quarantined)) AS r(n) ORDER BY n""",
}
"""A query for each table, whose times are epoch ms; columns without one are null."""


def write_warehouse(root: Path, end_ms: int, size: Size | None = None) -> Mapping[str, int]:
    """Write every table; return the rows of each. History ends at `end_ms`."""
    create_tables(root)
    engine = duckdb.connect()
    day = {"end_ms": end_ms, "start_ms": end_ms - 86_400_000}
    engine.register("size", pa.Table.from_pylist([asdict(size or Size()) | day]))
    engine.execute(SHARED)
    counts: dict[str, int] = {}
    for name, query in ROWS.items():
        made = engine.sql(query).to_arrow_table()
        columns = [
            pc.multiply(made[field.name], 1000).cast(field.type)
            if pa.types.is_timestamp(field.type)
            else made[field.name].cast(field.type)
            if field.name in made.column_names
            else pa.array([0 if field.name == "batch_id" else None] * made.num_rows, field.type)
            for field in arrow_schema(TABLES[name])
        ]
        rows = pa.table(columns, schema=arrow_schema(TABLES[name]))
        for first in range(0, rows.num_rows, COMMIT_ROWS):
            write_deltalake(table_path(root, name), rows.slice(first, COMMIT_ROWS), mode="append")
        counts[name] = rows.num_rows
    return counts
