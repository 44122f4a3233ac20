"""The dry run: what the relay would send now, and why it withholds the rest."""

from typing import Any

from conf.settings import Settings
from schemas.tables import ALERTS
from streaming.relay.notice import EVERYBODY, Notice
from streaming.relay.outbox import Delivery, Pace
from streaming.relay.receivers import make_receivers
from streaming.relay.relay import Relay, make_owed
from streaming.relay.silences import make_mutes
from streaming.relay.tables import RelayTables
from streaming.warehouse.readable_rows import open_written

WITHHELD = {"SILENCED": "silenced by ", "INHIBITED": "inhibited by "}


def plan_rows(settings: Settings) -> list[dict[str, Any]]:
    """Return what the relay would send: a row per notification and receiver, in sending order. Writes nothing.

    Raises NotWrittenError, TableAccessError, SettingsError.
    """
    open_written(settings.paths.warehouse, ALERTS)
    receivers = make_receivers(settings.oncall)
    owed = make_owed(settings.oncall, receivers, make_mutes(settings.mutes))
    tables = RelayTables(settings.paths.warehouse, may_write=False)
    Relay(settings).resume(owed, tables, receivers, Pace.of(settings.oncall))  # it is not started
    rows = []
    for name, box in owed.outboxes.items():
        rows += [_row(name, delivery.notice, delivery.route, _why(delivery)) for delivery in box.owed()]
        why = "repeated: the receiver would resolve it otherwise"
        rows += [_row(name, notice, "", why) for notice in box.renewed()]
    for notice, withheld in owed.withheld():
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
