"""Samples of an exporter, and rows for the tables."""

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from streaming.metrics.exporter import Exporter


def samples(exporter: Exporter, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """Return the series of one name (with _bucket, _sum, _count or _total): sorted labels to value."""
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exporter.text().decode())
        for sample in family.samples
        if sample.name == name
    }


def value(exporter: Exporter, name: str, **labels: str) -> float | None:
    """Return the value of one series; None without it."""
    return samples(exporter, name).get(tuple(sorted(labels.items())))


def assignment(group: str, queue_id: int, verdict: str, **more: Any) -> dict[str, Any]:
    return {
        "cluster": "c",
        "consumer_group": group,
        "topic": "t",
        "broker_name": "b",
        "queue_id": queue_id,
        "verdict": verdict,
        "planned_owner": "x",
        "observed_owners": ["x"],
    } | more


def closed(group: str, queue_id: int) -> dict[str, Any]:
    """Return the last row of a queue whose group or topic was deleted."""
    return assignment(group, queue_id, "NOT_JUDGED", planned_owner=None, observed_owners=[])


def membership(group: str, client_addr: str, client_id: str, change: str = "JOINED", **more: Any) -> dict[str, Any]:
    return {
        "cluster": "c",
        "consumer_group": group,
        "broker_name": "b",
        "client_id": client_id,
        "client_addr": client_addr,
        "change": change,
    } | more
