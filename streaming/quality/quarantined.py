"""Quarantined messages by place, topic, reason and time, each with its state."""

from collections.abc import Mapping
from typing import Any

from conf.location import Location
from schemas.tables import QUARANTINE, REPAIRS
from streaming.quality.filters import QuarantineFilter
from streaming.store.store import History
from streaming.text.result import Found

_SQL = """
WITH actions AS (
    SELECT topic, "partition", "offset", ingest_time,
        CASE WHEN bool_or(action = 'REPLAYED') THEN 'REPLAYED' WHEN bool_or(action = 'CLAIMED') THEN 'UNKNOWN'
            ELSE 'REPAIRED' END AS state,
        arg_max(value, changed_at) FILTER (action = 'REPAIRED') AS repaired,
        max(claim_id) AS claim_id,
        max(changed_at) FILTER (action = 'CLAIMED') AS claimed_at,
        max(replayed_partition) AS replayed_partition,
        max(replayed_offset) AS replayed_offset
    FROM repairs WHERE $at_ms IS NULL OR epoch_ms(changed_at) <= $at_ms
    GROUP BY topic, "partition", "offset", ingest_time
), found AS (
    SELECT q.topic, q."partition", q."offset", q.ingest_time, coalesce(s.state, 'WAITING') AS state, q.reasons,
        coalesce(octet_length(q.raw), 0) AS bytes, s.claim_id, s.claimed_at, s.replayed_partition, s.replayed_offset,
        q.raw, s.repaired
    FROM quarantine q LEFT JOIN actions s
        ON q.topic = s.topic AND q."partition" = s."partition" AND q."offset" = s."offset"
            AND q.ingest_time = s.ingest_time
    WHERE ($topic IS NULL OR q.topic = $topic OR q.topic GLOB $topic)
        AND ($partition IS NULL OR q."partition" = $partition)
        AND ($offset IS NULL OR q."offset" = $offset)
        AND ($at_ms IS NULL OR epoch_ms(q.ingest_time) <= $at_ms)
        AND ($since_ms IS NULL OR epoch_ms(q.ingest_time) >= $since_ms)
        AND ($until_ms IS NULL OR epoch_ms(q.ingest_time) <= $until_ms)
        AND ($reason IS NULL OR len(list_filter(q.reasons, lambda said: said = $reason OR said GLOB $reason)) > 0)
)
"""

_LISTED = """
SELECT * EXCLUDE (raw, repaired) FROM (
    SELECT * FROM found WHERE len($states) = 0 OR list_contains($states, state)
    ORDER BY ingest_time DESC, topic DESC, "partition" DESC, "offset" DESC LIMIT $most
) ORDER BY ingest_time, topic, "partition", "offset"
"""
_WHOLE = """
SELECT * FROM found WHERE len($states) = 0 OR list_contains($states, state)
ORDER BY ingest_time, topic, "partition", "offset" LIMIT $most
"""


def open_quarantine(warehouse: Location) -> History:
    """Raises WarehouseError."""
    return History(warehouse, [QUARANTINE, REPAIRS])


def list_quarantined(history: History, wanted: QuarantineFilter, limit: int | None) -> Found:
    """Return the newest `limit` messages, oldest first, without their bytes. Raises WarehouseError."""
    if limit is None:
        return Found(history.stream(_SQL + _LISTED, wanted.parameters(None)), is_cut=False)
    rows = history.query(_SQL + _LISTED, wanted.parameters(limit + 1))
    is_cut = rows.num_rows > limit
    return Found(rows.slice(int(is_cut)).to_reader(), is_cut)


def read_quarantined(history: History, wanted: QuarantineFilter, most: int) -> list[Mapping[str, Any]]:
    """Return the oldest `most` messages with `raw` and `repaired` bytes. Raises WarehouseError."""
    return list(history.rows(_SQL + _WHOLE, wanted.parameters(most)))
