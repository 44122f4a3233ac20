"""Brokers: intervals in which k of n producers avoided each, the producers that do so now, and incidents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streaming.board.queries.known_until import Known
from streaming.store.store import History
from udfs.alerts.rulebook import CANARY_CLUSTER

MERGED_SHARES = (400, 100, 25)
"""Intervals are joined over breaks shorter than this part of the period, about a pixel. If more than MOST_INTERVALS
remain, the next share joins longer breaks."""

MOST_INTERVALS = 4_000
MOST_INCIDENTS = 300
MOST_AVOIDERS = 5_000


@dataclass(frozen=True, slots=True)
class Interval:
    """From `start_ms` to `end_ms`, up to `avoiding` of `producers` avoided the broker, `times` times."""

    start_ms: int
    end_ms: int
    avoiding: int
    producers: int
    times: int


@dataclass(frozen=True, slots=True)
class Avoider:
    """A producer whose FaultItem for the broker is unavailable: since when, until when, and the send that caused it."""

    client_id: str
    client_version: str
    current_latency_ms: int
    isolation: bool
    since_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class BrokerIncident:
    """An incident of the broker itself; `end_ms` is None while it is open."""

    incident_id: str
    kind: str
    state: str
    summary: str
    start_ms: int
    end_ms: int | None


@dataclass(frozen=True)
class Broker:
    """One broker: its state now, and its intervals and incidents in the period."""

    cluster: str
    broker_name: str
    avoiding: int
    producers: int
    until_ms: int | None
    intervals: tuple[Interval, ...] = ()
    avoiders: tuple[Avoider, ...] = ()
    incidents: tuple[BrokerIncident, ...] = ()

    @property
    def open_incidents(self) -> tuple[BrokerIncident, ...]:
        return tuple(one for one in self.incidents if one.end_ms is None)

    @property
    def is_quiet(self) -> bool:
        """Whether the period has no avoidance and no incident of it."""
        return not (self.avoiding or self.intervals or self.incidents)


@dataclass(frozen=True)
class Asked:
    """One cluster, "" for all, and the period."""

    cluster: str
    from_ms: int
    until_ms: int

    def params(self, merged_share: int) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "canary": CANARY_CLUSTER,
            "from_ms": self.from_ms,
            "until_ms": self.until_ms,
            "merge_ms": (self.until_ms - self.from_ms) // merged_share,
        }


_CHOSEN = "($cluster = '' OR cluster = $cluster) AND ($cluster = $canary OR cluster <> $canary)"

_KNOWN = f"""
SELECT cluster, broker_name, max(k) AS avoiding, max(n) AS producers, max(until_ms) AS until_ms FROM (
    SELECT cluster, broker_name, unavailable_producers AS k, producers AS n, epoch_ms(unavailable_until) AS until_ms
    FROM broker_health_now
    UNION ALL
    SELECT DISTINCT cluster, broker_name, 0, 0, NULL::BIGINT FROM assignments
) WHERE {_CHOSEN} GROUP BY ALL
"""

_INTERVALS = f"""
WITH steps AS (
    SELECT cluster, broker_name, unavailable_producers AS k, producers AS n, epoch_ms(changed_at) AS start_ms, batch_id
    FROM broker_health
    WHERE changed_at > make_timestamptz($from_ms * 1000) AND changed_at <= make_timestamptz($until_ms * 1000)
    UNION ALL
    SELECT cluster, broker_name, unavailable_producers, producers, $from_ms, -1
    FROM broker_health_at(make_timestamptz($from_ms * 1000))
), spans AS (
    SELECT
        *,
        lead(start_ms, 1, $until_ms) OVER (PARTITION BY cluster, broker_name ORDER BY start_ms, batch_id) AS end_ms
    FROM steps
    WHERE {_CHOSEN}
), avoided AS (
    SELECT
        *,
        start_ms - lag(end_ms) OVER (PARTITION BY cluster, broker_name ORDER BY start_ms, batch_id) AS pause_ms
    FROM spans
    WHERE k > 0 AND end_ms > start_ms
), numbered AS (
    SELECT
        *,
        count(*) FILTER (pause_ms IS NULL OR pause_ms > $merge_ms)
            OVER (PARTITION BY cluster, broker_name ORDER BY start_ms, batch_id) AS number
    FROM avoided
)
SELECT
    cluster,
    broker_name,
    min(start_ms) AS start_ms,
    max(end_ms) AS end_ms,
    max(k) AS avoiding,
    max(n) AS producers,
    count(*) FILTER (pause_ms IS NULL OR pause_ms > 0) AS times
FROM numbered
GROUP BY cluster, broker_name, number
ORDER BY end_ms DESC, cluster, broker_name
LIMIT {MOST_INTERVALS + 1}
"""

_AVOIDERS = f"""
SELECT
    cluster,
    broker_name,
    client_id,
    client_version,
    current_latency_ms,
    isolation,
    epoch_ms(changed_at) AS since_ms,
    epoch_ms(start_timestamp) AS until_ms
FROM fault_items_now
WHERE NOT available AND {_CHOSEN}
ORDER BY start_timestamp DESC, client_id
LIMIT {MOST_AVOIDERS}
"""

_INCIDENTS = f"""
SELECT
    cluster,
    unnest(string_split(broker_name, ',')) AS broker_name,
    incident_id,
    kind,
    state,
    summary,
    epoch_ms(started_at) AS start_ms,
    CASE WHEN state = 'RESOLVED' THEN epoch_ms(changed_at) END AS end_ms
FROM alerts_now
WHERE consumer_group IS NULL AND broker_name IS NOT NULL AND fired_at IS NOT NULL
    AND (state <> 'RESOLVED' OR changed_at > make_timestamptz($from_ms * 1000)) AND {_CHOSEN}
ORDER BY state = 'RESOLVED', started_at DESC
LIMIT {MOST_INCIDENTS}
"""


def read_brokers(history: History, asked: Asked, known: Known | None = None) -> tuple[list[Broker], bool]:
    """Return the brokers, worst first, and whether the oldest intervals are missing because there are too many.

    Intervals end with the data of the broker's cluster.
    """
    known = known or Known(asked.until_ms)
    for share in MERGED_SHARES:
        params = asked.params(share)
        intervals = _ask(history, _INTERVALS, params)
        if len(intervals) <= MOST_INTERVALS:
            break
    by_broker: dict[tuple[str, str], dict[str, list[Any]]] = {}

    def file(rows: list[dict[str, Any]], name: str, kind: type) -> None:
        for row in rows:
            place = (row.pop("cluster"), row.pop("broker_name"))
            by_broker.setdefault(place, {}).setdefault(name, []).append(kind(**row))

    file(intervals[:MOST_INTERVALS], "intervals", Interval)
    file(_ask(history, _AVOIDERS, params), "avoiders", Avoider)
    file(_ask(history, _INCIDENTS, params), "incidents", BrokerIncident)
    now = {(row["cluster"], row["broker_name"]): row for row in _ask(history, _KNOWN, params)}
    brokers = [
        _broker(place, now.get(place, {}), by_broker.get(place, {}), known.of(place[0]))
        for place in sorted(now.keys() | by_broker.keys())
    ]
    brokers.sort(key=_urgency)
    return brokers, len(intervals) > MOST_INTERVALS


def _broker(place: tuple[str, str], now: Mapping[str, Any], reported: Mapping[str, list[Any]], known_ms: int) -> Broker:
    intervals: Sequence[Interval] = reported.get("intervals", ())
    return Broker(
        *place,
        now.get("avoiding", 0),
        now.get("producers", 0),
        now.get("until_ms"),
        tuple(replace(one, end_ms=min(one.end_ms, known_ms)) for one in intervals if one.start_ms < known_ms),
        tuple(reported.get("avoiders", ())),
        tuple(reported.get("incidents", ())),
    )


def join_intervals(intervals: Sequence[Interval], break_ms: int) -> tuple[Interval, ...]:
    """Join intervals, newest first, over breaks of at most `break_ms`."""
    joined: list[Interval] = []
    for one in intervals:
        last = joined[-1] if joined else None
        if last and last.start_ms - one.end_ms <= break_ms:
            avoiding, producers = max(last.avoiding, one.avoiding), max(last.producers, one.producers)
            joined[-1] = Interval(one.start_ms, last.end_ms, avoiding, producers, last.times + one.times)
        else:
            joined.append(one)
    return tuple(joined)


def _urgency(broker: Broker) -> tuple[bool, float, bool, int, str, str]:
    """Sort key: open incidents, then the share of producers that avoid it now, then the latest avoidance."""
    share = broker.avoiding / broker.producers if broker.producers else 0.0
    last_ms = max((one.end_ms for one in broker.intervals), default=0)
    return (not broker.open_incidents, -share, not broker.incidents, -last_ms, broker.cluster, broker.broker_name)


def _ask(history: History, sql: str, params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Pass only the parameters that the query names; DuckDB refuses others."""
    return history.rows(sql, {name: value for name, value in params.items() if f"${name}" in sql})
