"""Firing incidents that are not inhibited, worst and newest first, with the incidents that each inhibits."""

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
    """A firing incident that is not inhibited. `effects` counts the open incidents that it inhibits, by kind."""

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
    """Who acknowledged it last."""

    @property
    def subject(self) -> str:
        """The group, else the broker, else the cluster."""
        return self.consumer_group or self.broker_name or self.cluster


@dataclass(frozen=True)
class Trouble:
    """All open incidents: the first of those that fire, the number of all that fire, and counts by other states."""

    firing: tuple[Firing, ...]
    firing_count: int
    inhibited_count: int
    states: Mapping[str, int]
    """Open incidents in other states than FIRING, by state."""
    resolved_lately: int


def read_trouble(history: History, lately_from_ms: int) -> Trouble:
    """Return the open incidents; `resolved_lately` counts all that resolved after `lately_from_ms`, fired or not."""
    counts = history.rows(
        "SELECT state, inhibited_by IS NOT NULL AS is_inhibited, count(*) AS n, "
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
        sum(row["n"] for row in counts if row["state"] == "FIRING" and not row["is_inhibited"]),
        sum(row["n"] for row in counts if row["state"] == "FIRING" and row["is_inhibited"]),
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
    acknowledged = read_acknowledged(history, ids)
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


def read_acknowledged(history: History, incident_ids: list[str], until_ms: int | None = None) -> dict[str, str]:
    """Return who acknowledged each of these incidents last, up to `until_ms`."""
    upto = "" if until_ms is None else "AND acknowledged_at <= make_timestamptz($until_ms * 1000) "
    rows = _rows_of(
        history,
        incident_ids,
        "SELECT incident_id, arg_max(acknowledged_by, acknowledged_at) AS acknowledged_by FROM acknowledgements "
        f"WHERE list_contains($ids, incident_id) {upto}GROUP BY 1",
        {} if until_ms is None else {"until_ms": until_ms},
    )
    return {row["incident_id"]: row["acknowledged_by"] for row in rows}


def _rows_of(
    history: History, incident_ids: list[str], sql: str, more: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    return history.rows(sql, {"ids": incident_ids, **(more or {})}) if incident_ids else []
