"""Incidents of a period, filtered, counted in bins if there are many, and read page by page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.views import ALL_INCIDENTS
from streaming.board.queries.extent import extent_of
from streaming.board.queries.known_until import Known
from streaming.store.store import History
from udfs.alerts.kinds import ABOVE_GROUPS
from udfs.alerts.rulebook import CANARY_CLUSTER

PAGE_ROWS = 50
MOST_LANES = 40
BINS = 96
MOST_KINDS = 40
MOST_STEPS = 50


@dataclass(frozen=True)
class Asked:
    """The filter; None means any. `is_inhibited` selects inhibited or other incidents."""

    from_ms: int
    until_ms: int
    cluster: str | None = None
    kind: str | None = None
    state: str | None = None
    consumer_group: str | None = None
    is_inhibited: bool | None = None

    def condition(self) -> tuple[str, dict[str, Any]]:
        """Return SQL over ALL_INCIDENTS and its parameters. The canary is hidden unless its cluster is named."""
        clauses = [
            "coalesce(ended_at, make_timestamptz($until_ms * 1000)) >= make_timestamptz($from_ms * 1000)",
            "started_at <= make_timestamptz($until_ms * 1000)",
        ]
        params: dict[str, Any] = {"from_ms": self.from_ms, "until_ms": self.until_ms}
        for column in ("cluster", "kind", "state", "consumer_group"):
            if (value := getattr(self, column)) is not None:
                clauses.append(f"{column} = ${column}")
                params[column] = value
        if self.cluster is None:
            clauses.append("cluster <> $canary")
            params["canary"] = CANARY_CLUSTER
        if self.is_inhibited is not None:
            clauses.append(f"inhibited_by IS {'NOT ' if self.is_inhibited else ''}NULL")
        return " AND ".join(clauses), params


@dataclass(frozen=True)
class Incident:
    """One incident now; `ended_ms` is None while it is open, `fired_ms` if it never fired."""

    incident_id: str
    kind: str
    severity: str
    state: str
    cause: str | None
    cluster: str
    consumer_group: str | None
    topic: str | None
    broker_name: str | None
    summary: str
    inhibited_by: str | None
    started_ms: int
    fired_ms: int | None
    ended_ms: int | None

    @property
    def subject(self) -> str:
        """The group, else the broker, else the cluster."""
        return self.consumer_group or self.broker_name or self.cluster


@dataclass(frozen=True)
class Step:
    """A change of an incident's state or inhibition."""

    at_ms: int
    state: str
    is_inhibited: bool


@dataclass(frozen=True)
class Bins:
    """Numbers of open incidents of a kind in BINS equal parts of the period; inhibited ones are separate.

    `unknown` counts those without data, which may still be open.
    """

    kind: str
    is_inhibited: bool
    counts: tuple[int, ...]
    unknown: tuple[int, ...]

    @property
    def most(self) -> int:
        """Greatest number at one time."""
        return max(*self.counts, *self.unknown)


def count_incidents(history: History, asked: Asked) -> tuple[int, int, int]:
    """Return the number of incidents and the part of the period that they cover, up to its end if one is open."""
    condition, params = asked.condition()
    (row,) = history.rows(
        "SELECT count(*) AS n, epoch_ms(min(started_at)) AS first_ms, "
        "max(coalesce(epoch_ms(ended_at), $until_ms)) AS last_ms "
        f"FROM ({ALL_INCIDENTS}) WHERE {condition}",
        params,
    )
    times_ms = [row["first_ms"], row["last_ms"]] if row["n"] else []
    return int(row["n"]), *extent_of(asked.from_ms, asked.until_ms, times_ms)


def read_incidents(history: History, asked: Asked, offset: int, limit: int) -> list[Incident]:
    """Return incidents, open ones first, then the most recently resolved."""
    condition, params = asked.condition()
    rows = history.rows(
        "SELECT incident_id, kind, severity, state, cause, cluster, consumer_group, topic, broker_name, summary, "
        "inhibited_by, epoch_ms(started_at) AS started_ms, epoch_ms(fired_at) AS fired_ms, "
        f"epoch_ms(ended_at) AS ended_ms FROM ({ALL_INCIDENTS}) WHERE {condition} "
        "ORDER BY ended_at DESC NULLS FIRST, state <> 'FIRING', inhibited_by IS NOT NULL, started_at DESC, "
        "incident_id LIMIT $limit OFFSET $offset",
        {**params, "limit": limit, "offset": offset},
    )
    return [Incident(**row) for row in rows]


def read_steps(history: History, incident_ids: Sequence[str]) -> Mapping[str, tuple[Step, ...]]:
    """Return each incident's newest MOST_STEPS changes of state or inhibition, oldest first, in one query."""
    rows = history.rows(
        """
        WITH steps AS (
            SELECT incident_id, changed_at, batch_id, state, inhibited_by IS NOT NULL AS is_inhibited
            FROM alerts WHERE list_contains($ids, incident_id)
        ), changes AS (
            SELECT * FROM steps
            WINDOW steps_of AS (PARTITION BY incident_id ORDER BY changed_at, batch_id)
            QUALIFY (lag(state) OVER steps_of) IS DISTINCT FROM state
                OR (lag(is_inhibited) OVER steps_of) IS DISTINCT FROM is_inhibited
        )
        SELECT incident_id, epoch_ms(changed_at) AS at_ms, state, is_inhibited FROM changes
        QUALIFY row_number() OVER (PARTITION BY incident_id ORDER BY changed_at DESC, batch_id DESC) <= $most
        ORDER BY incident_id, changed_at, batch_id
        """,
        {"ids": list(incident_ids), "most": MOST_STEPS},
    )
    found: dict[str, list[Step]] = {}
    for row in rows:
        found.setdefault(row["incident_id"], []).append(Step(row["at_ms"], row["state"], row["is_inhibited"]))
    return {incident_id: tuple(steps) for incident_id, steps in found.items()}


def read_bins(history: History, asked: Asked, known: Known | None = None) -> list[Bins]:
    """Return counts by kind, inhibited ones after others, for the MOST_KINDS with the highest counts.

    Each incident counts once per bin, by its inhibition at that time; before its first row, by that row's.
    """
    known = known or Known(asked.until_ms)
    condition, params = asked.condition()
    rows = history.rows(
        f"""
        WITH chosen AS (
            SELECT incident_id, kind, inhibited_by IS NOT NULL AS is_inhibited, epoch_ms(started_at) AS started_ms,
                epoch_ms(ended_at) AS ended_ms,
                coalesce(list_extract($silent_ms::BIGINT[], list_position($silent::VARCHAR[], cluster)), $known_ms)
                    AS silent_ms
            FROM ({ALL_INCIDENTS}) WHERE {condition}
        ), incidents AS (
            SELECT *, coalesce(
                ended_ms,
                CASE WHEN kind IN {ABOVE_GROUPS} OR started_ms >= silent_ms THEN $known_ms
                    ELSE least(silent_ms, $known_ms) END
            ) AS known_ms
            FROM chosen
        ), known AS (
            SELECT incident_id, inhibited_by IS NOT NULL AS is_inhibited, epoch_ms(changed_at) AS at_ms,
                row_number() OVER steps AS number, lead(epoch_ms(changed_at)) OVER steps AS next_ms
            FROM alerts WHERE incident_id IN (SELECT incident_id FROM incidents)
            WINDOW steps AS (PARTITION BY incident_id ORDER BY changed_at, batch_id)
        ), pieces AS (
            SELECT incident_id, kind, known.is_inhibited, true AS is_known,
                CASE number WHEN 1 THEN least(started_ms, at_ms) ELSE at_ms END AS start_ms,
                least(coalesce(next_ms, known_ms), known_ms) AS end_ms
            FROM known JOIN incidents USING (incident_id)
            WHERE number = 1 OR ended_ms IS NULL OR next_ms IS NOT NULL
            UNION ALL
            SELECT incident_id, kind, is_inhibited, false, greatest(started_ms, known_ms + $bin_ms), $until_ms
            FROM incidents WHERE ended_ms IS NULL
        ), spans AS (
            SELECT incident_id, kind, is_inhibited, is_known,
                greatest(0, floor((start_ms - $from_ms) / $bin_ms))::INT AS first,
                least($bins - 1, floor((end_ms - $from_ms) / $bin_ms))::INT AS last
            FROM pieces WHERE start_ms <= end_ms
        ), counted AS (
            SELECT kind, is_inhibited, is_known, last, greatest(first, 1 + coalesce(max(last) OVER (
                PARTITION BY incident_id, is_inhibited, is_known ORDER BY first, last
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ), -1)) AS first
            FROM spans
        ), steps AS (
            SELECT kind, is_inhibited, is_known, first AS bin, 1 AS step FROM counted WHERE first <= last
            UNION ALL SELECT kind, is_inhibited, is_known, last + 1, -1 FROM counted WHERE first <= last
        )
        SELECT kind, is_inhibited, is_known, bin, sum(step)::INT AS step FROM steps GROUP BY ALL
        """,
        {
            **params,
            "bins": BINS,
            "bin_ms": max(1.0, (asked.until_ms - asked.from_ms) / BINS),
            "known_ms": known.until_ms,
            "silent": list(known.silent_ms),
            "silent_ms": list(known.silent_ms.values()),
        },
    )
    changes: dict[tuple[str, bool], dict[bool, dict[int, int]]] = {}
    for row in rows:
        if asked.is_inhibited in (None, row["is_inhibited"]):
            of_kind = changes.setdefault((row["kind"], row["is_inhibited"]), {True: {}, False: {}})
            of_kind[row["is_known"]][row["bin"]] = row["step"]
    bins = [Bins(*of, _running(steps[True]), _running(steps[False])) for of, steps in changes.items()]
    busiest = sorted(bins, key=lambda one: -one.most)[:MOST_KINDS]
    return sorted(busiest, key=lambda one: (one.kind, one.is_inhibited))


def read_choices(history: History) -> Mapping[str, list[str]]:
    """Return the clusters and kinds with incidents, at most 200 each, without the canary's cluster."""
    found: dict[str, list[str]] = {}
    for column in ("cluster", "kind"):
        rows = history.rows(
            f"SELECT DISTINCT {column} AS value FROM alerts WHERE cluster <> $canary ORDER BY 1 LIMIT 200",
            {"canary": CANARY_CLUSTER},
        )
        found[column] = [row["value"] for row in rows]
    return found


def _running(steps: Mapping[int, int]) -> tuple[int, ...]:
    counts, open_now = [], 0
    for number in range(BINS):
        open_now += steps.get(number, 0)
        counts.append(open_now)
    return tuple(counts)
