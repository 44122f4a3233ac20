"""The dry run: what the relay would send now, and why it withholds the rest."""

from typing import Any

from conf.settings import Settings
from schemas.tables import ALERTS
from streaming.relay.notice import EVERYBODY, Notice
from streaming.relay.outbox import Delivery
from streaming.relay.relay import Relay
from streaming.relay.tables import RelayTables
from streaming.warehouse.readable_rows import open_written

WITHHELD = {"SILENCED": "silenced by ", "INHIBITED": "inhibited by "}


def plan_rows(settings: Settings) -> list[dict[str, Any]]:
    """Return what the relay would send: a row per notification and receiver, in sending order. Writes nothing.

    Raises NotWrittenError, TableAccessError, SettingsError.
    """
    open_written(settings.paths.warehouse, ALERTS)
    relay = Relay(settings)  # it is not started
    relay.load(RelayTables(settings.paths.warehouse, may_write=False))
    planned: list[tuple[str, Notice, str, str]] = []
    for name, box in relay.owed.outboxes.items():
        planned += [(name, delivery.notice, delivery.route, _why(delivery)) for delivery in box.owed()]
        planned += [(name, notice, "", "repeated: the receiver would resolve it otherwise") for notice in box.renewed()]
    for incident in relay.owed.incidents.values():
        if (withheld := incident.withheld) and incident.newest and incident.is_news(incident.newest):
            why = f"not notified: {WITHHELD.get(withheld['outcome'], '')}{withheld['reason']}"
            planned.append((EVERYBODY, incident.newest, "", why))
    return [
        {
            "receiver": receiver,
            "status": "resolved" if notice.status == "resolved" else "firing",
            "kind": notice.kind,
            "severity": notice.severity,
            "incident_id": notice.incident_id,
            "route": route,
            "why": why,
            "summary": notice.summary,
        }
        for receiver, notice, route, why in planned
    ]


def _why(delivery: Delivery) -> str:
    if delivery.notice.status == "acknowledged":
        return delivery.notice.reason or ""
    calls = "call" if delivery.attempts == 1 else "calls"
    return f"pending after {delivery.attempts} failed {calls}" if delivery.attempts else "pending"
