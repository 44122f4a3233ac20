"""What fires as the tables have it: the incidents that page, worst and newest first, and what each explains."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streaming.store.store import History
from udfs.alerts.firing_limit import SEVERITIES
from udfs.alerts.rulebook import CANARY_CLUSTER

MOST_FIRING = 20


WORST_FIRST = f"list_position([{', '.join(repr(one) for one in SEVERITIES)}], severity) NULLS LAST"


@dataclass(frozen=True)
class Firing:
    """An incident that fires and that nothing explains. `effects` counts by kind what it explains and is still open."""

    incident_id: str
    kind: str
    severity: str
    cluster: str
    consumer_group: str | None
    topic: str | None
    broker_name: str | None
    summary: str
    advice: str
    is_flapping: bool
    fired_ms: int
    effects: Mapping[str, int]
    acknowledged_by: str | None
    """Who said last that they are at it."""

    @property
    def subject(self) -> str:
        """The group, else the broker, else the cluster."""
        return self.consumer_group or self.broker_name or self.cluster


@dataclass(frozen=True)
class Trouble:
    """All that is open: the first of what fires, how many fire in all, and how many are in the other states."""

    firing: tuple[Firing, ...]
    firing_count: int
    explained_count: int
    states: Mapping[str, int]
    """Open incidents that do not fire, by state."""
    resolved_lately: int


def read_trouble(history: History, lately_from_ms: int) -> Trouble:
    """What is open now; `resolved_lately` counts what was over, whether it fired or not, after `lately_from_ms`."""
    counts = history.rows(
        "SELECT state, inhibited_by IS NOT NULL AS is_explained, count(*) AS n, "
        "count(*) FILTER (changed_at >= make_timestamptz($lately_from_ms * 1000)) AS lately "
        "FROM alerts_now WHERE cluster <> $canary GROUP BY ALL",
        {"canary": CANARY_CLUSTER, "lately_from_ms": lately_from_ms},
    )
    states: dict[str, int] = {}
    for row in counts:
        if row["state"] not in ("FIRING", "RESOLVED"):
            states[row["state"]] = states.get(row["state"], 0) + row["n"]
    return Trouble(
        tuple(_read_firing(history)),
        sum(row["n"] for row in counts if row["state"] == "FIRING" and not row["is_explained"]),
        sum(row["n"] for row in counts if row["state"] == "FIRING" and row["is_explained"]),
        states,
        sum(row["lately"] for row in counts if row["state"] == "RESOLVED"),
    )


def _read_firing(history: History) -> list[Firing]:
    rows = history.rows(
        "SELECT incident_id, kind, severity, cluster, consumer_group, topic, broker_name, summary, advice, "
        "coalesce(is_flapping, false) AS is_flapping, epoch_ms(coalesce(fired_at, changed_at)) AS fired_ms "
        f"FROM firing ORDER BY {WORST_FIRST}, fired_ms DESC, incident_id LIMIT $most",
        {"most": MOST_FIRING},
    )
    ids = [row["incident_id"] for row in rows]
    effects = _read_effects(history, ids)
    acknowledged = _read_acknowledged(history, ids)
    return [
        Firing(**row, effects=effects.get(row["incident_id"], {}), acknowledged_by=acknowledged.get(row["incident_id"]))
        for row in rows
    ]


def _read_effects(history: History, incident_ids: list[str]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    rows = _rows_of(
        history,
        incident_ids,
        "SELECT inhibited_by, kind, count(*) AS n FROM alerts_now "
        "WHERE list_contains($ids, inhibited_by) AND state <> 'RESOLVED' GROUP BY ALL ORDER BY n DESC, kind",
    )
    for row in rows:
        found.setdefault(row["inhibited_by"], {})[row["kind"]] = row["n"]
    return found


def _read_acknowledged(history: History, incident_ids: list[str]) -> dict[str, str]:
    rows = _rows_of(
        history,
        incident_ids,
        "SELECT incident_id, arg_max(acknowledged_by, acknowledged_at) AS acknowledged_by FROM acknowledgements "
        "WHERE list_contains($ids, incident_id) GROUP BY 1",
    )
    return {row["incident_id"]: row["acknowledged_by"] for row in rows}


def _rows_of(history: History, incident_ids: list[str], sql: str) -> list[dict[str, Any]]:
    return history.rows(sql, {"ids": incident_ids}) if incident_ids else []
