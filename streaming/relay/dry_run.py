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
    relay = Relay(settings, takes_canary=False)  # it is not started
    relay.load(RelayTables(settings.paths.warehouse, may_write=False))
    rows = []
    for name, box in relay.owed.outboxes.items():
        rows += [_row(name, delivery.notice, delivery.route, _why(delivery)) for delivery in box.owed()]
        why = "repeated: the receiver would resolve it otherwise"
        rows += [_row(name, notice, "", why) for notice in box.renewed()]
    for notice, withheld in relay.owed.withheld():
        why = f"not notified: {WITHHELD.get(withheld.outcome, '')}{withheld.reason}"
        rows.append(_row(EVERYBODY, notice, "", why))
    return rows


def _why(delivery: Delivery) -> str:
    if delivery.notice.status == "acknowledged":
        return delivery.notice.reason or ""
    if not delivery.attempts:
        return "pending"
    return f"pending after {delivery.attempts} failed {'call' if delivery.attempts == 1 else 'calls'}"


def _row(receiver: str, notice: Notice, route: str, why: str) -> dict[str, Any]:
    return {
        "receiver": receiver,
        "status": "resolved" if notice.status == "resolved" else "firing",
        "kind": notice.kind,
        "severity": notice.severity,
        "incident_id": notice.incident_id,
        "route": route,
        "why": why,
        "summary": notice.summary,
    }
