"""Incidents of a span of time, filtered, counted in bins where they are many, and read page by page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.views import ALL_INCIDENTS
from streaming.history.store import History
from udfs.rulebook import CANARY_CLUSTER

PAGE_ROWS = 50
MOST_LANES = 40
BINS = 96
MOST_KINDS = 40
MOST_STEPS = 50


@dataclass(frozen=True)
class Asked:
    """The filter: None asks nothing. `is_explained` tells effects that do not page from what does."""

    from_ms: int
    until_ms: int
    cluster: str | None = None
    kind: str | None = None
    state: str | None = None
    consumer_group: str | None = None
    is_explained: bool | None = None

    def condition(self) -> tuple[str, dict[str, Any]]:
        """SQL over ALL_INCIDENTS, and its parameters. The canary is hidden unless its cluster is asked for."""
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
        if self.is_explained is not None:
            clauses.append(f"suppressed_by IS {'NOT ' if self.is_explained else ''}NULL")
        return " AND ".join(clauses), params


@dataclass(frozen=True)
class Incident:
    """One incident as it stands; `ended_ms` is None while it is open, `fired_ms` where it never fired."""

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
    suppressed_by: str | None
    started_ms: int
    fired_ms: int | None
    ended_ms: int | None

    @property
    def subject(self) -> str:
        """The group, else the broker, else the cluster."""
        return self.consumer_group or self.broker_name or self.cluster


@dataclass(frozen=True)
class Step:
    """From then on the incident was in this state, and explained by another or not."""

    at_ms: int
    state: str
    is_explained: bool


@dataclass(frozen=True)
class Bins:
    """How many incidents of a kind were open in each of BINS equal parts of the span, explained ones apart."""

    kind: str
    is_explained: bool
    counts: tuple[int, ...]


def count_incidents(history: History, asked: Asked) -> int:
    """How many there are in all."""
    condition, params = asked.condition()
    return int(history.rows(f"SELECT count(*) AS n FROM ({ALL_INCIDENTS}) WHERE {condition}", params)[0]["n"])


def read_incidents(history: History, asked: Asked, offset: int, limit: int) -> list[Incident]:
    """Open ones first, then those that ended last."""
    condition, params = asked.condition()
    rows = history.rows(
        "SELECT incident_id, kind, severity, state, cause, cluster, consumer_group, topic, broker_name, summary, "
        "suppressed_by, epoch_ms(started_at) AS started_ms, epoch_ms(fired_at) AS fired_ms, "
        f"epoch_ms(ended_at) AS ended_ms FROM ({ALL_INCIDENTS}) WHERE {condition} "
        "ORDER BY ended_at DESC NULLS FIRST, state <> 'FIRING', suppressed_by IS NOT NULL, started_at DESC, "
        "incident_id LIMIT $limit OFFSET $offset",
        {**params, "limit": limit, "offset": offset},
    )
    return [Incident(**row) for row in rows]


def read_steps(history: History, incident_ids: Sequence[str]) -> Mapping[str, tuple[Step, ...]]:
    """What each incident went through, oldest first: its newest MOST_STEPS changes of state or explanation.

    One question, whose cost is of the table's size and not of how many incidents it holds.
    """
    rows = history.rows(
        """
        WITH steps AS (
            SELECT incident_id, changed_at, batch_id, state, suppressed_by IS NOT NULL AS is_explained
            FROM alerts WHERE list_contains($ids, incident_id)
        ), changes AS (
            SELECT * FROM steps
            WINDOW told AS (PARTITION BY incident_id ORDER BY changed_at, batch_id)
            QUALIFY (lag(state) OVER told) IS DISTINCT FROM state
                OR (lag(is_explained) OVER told) IS DISTINCT FROM is_explained
        )
        SELECT incident_id, epoch_ms(changed_at) AS at_ms, state, is_explained FROM changes
        QUALIFY row_number() OVER (PARTITION BY incident_id ORDER BY changed_at DESC, batch_id DESC) <= $most
        ORDER BY incident_id, changed_at, batch_id
        """,
        {"ids": list(incident_ids), "most": MOST_STEPS},
    )
    found: dict[str, list[Step]] = {}
    for row in rows:
        found.setdefault(row["incident_id"], []).append(Step(row["at_ms"], row["state"], row["is_explained"]))
    return {incident_id: tuple(steps) for incident_id, steps in found.items()}


def read_bins(history: History, asked: Asked) -> list[Bins]:
    """By kind, those that page before those that are explained; the busiest MOST_KINDS."""
    condition, params = asked.condition()
    rows = history.rows(
        f"""
        WITH spans AS (
            SELECT kind, suppressed_by IS NOT NULL AS is_explained,
                greatest(0, floor((epoch_ms(started_at) - $from_ms) / $bin_ms))::INT AS first,
                least($bins - 1,
                    floor((coalesce(epoch_ms(ended_at), $until_ms) - $from_ms) / $bin_ms))::INT AS last
            FROM ({ALL_INCIDENTS}) WHERE {condition}
        ), steps AS (
            SELECT kind, is_explained, first AS bin, 1 AS step FROM spans
            UNION ALL SELECT kind, is_explained, last + 1, -1 FROM spans
        )
        SELECT kind, is_explained, bin, sum(step)::INT AS step FROM steps GROUP BY ALL ORDER BY kind, is_explained, bin
        """,
        {**params, "bins": BINS, "bin_ms": max(1.0, (asked.until_ms - asked.from_ms) / BINS)},
    )
    changes: dict[tuple[str, bool], dict[int, int]] = {}
    for row in rows:
        changes.setdefault((row["kind"], row["is_explained"]), {})[row["bin"]] = row["step"]
    bins = [Bins(kind, is_explained, _running(steps)) for (kind, is_explained), steps in changes.items()]
    busiest = sorted(bins, key=lambda one: -max(one.counts))[:MOST_KINDS]
    return sorted(busiest, key=lambda one: (one.kind, one.is_explained))


def read_choices(history: History) -> Mapping[str, list[str]]:
    """The clusters and kinds that there are incidents of, the canary's cluster left out; at most 200 each."""
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
