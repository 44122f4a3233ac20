"""Notices for the tests: `notice()` is a starving queue, notified for the first time; arguments replace its parts."""

from typing import Any

from streaming.relay.notice import Notice

NOW_MS = 1_795_258_400_000
"""2026-11-21 10:53:20 UTC."""


def notice(number: int = 1, **parts: Any) -> Notice:
    """The incident `number`; each has an alert_id and a topic of its own."""
    topic = parts.pop("topic", f"orders-{number}")
    alert_id = f"{number:016x}"
    started_at_ms = parts.pop("started_at_ms", NOW_MS - 60_000)
    fields: dict[str, Any] = {
        "alert_id": alert_id,
        "incident_id": f"{alert_id}-{started_at_ms}",
        "kind": "starved_queue",
        "severity": "critical",
        "status": "firing",
        "cause": "duplicate_client_id",
        "reason": "opened",
        "labels": {"cluster": "demo", "consumer_group": "order-service", "topic": topic},
        "cluster": "demo",
        "consumer_group": "order-service",
        "topic": topic,
        "broker_name": None,
        "client_id": None,
        "queues": ("broker-a:6", "broker-a:7"),
        "summary": f"Nobody consumes 2 queues of topic {topic} in group order-service: broker-a:6-7.",
        "advice": 'Give each process its own ClientId: consumer.setInstanceName("...").',
        "started_at_ms": started_at_ms,
        "changed_at_ms": NOW_MS - 1_000,
    }
    return Notice(**(fields | parts))


def notices(count: int, **parts: Any) -> list[Notice]:
    """`count` incidents."""
    return [notice(number, **parts) for number in range(1, count + 1)]
