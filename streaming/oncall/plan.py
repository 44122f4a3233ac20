"""The dry run of the relay: which alerts it would send to which receivers, which not, and the reasons."""

from typing import Any

from conf.settings import Settings
from schemas.tables import ALERTS
from streaming.oncall.delivery import Delivery
from streaming.oncall.delivery_log import DeliveryLog, OperatorInput
from streaming.oncall.incident_state import WithheldReason
from streaming.oncall.mute import make_mutes
from streaming.oncall.notice import Notice
from streaming.oncall.record import EVERYBODY
from streaming.oncall.relay import Relay
from streaming.oncall.wiring import make_receivers
from streaming.warehouse.readable_rows import open_written

HELD = {
    "SILENCED": "not notified: silenced by {}",
    "INHIBITED": "not notified: inhibited by {}",
    "LIMITED": "not notified: {}",
    "NO_ROUTE": "not notified: {}",
}


def plan_rows(settings: Settings) -> list[dict[str, Any]]:
    """Return a row per notification and receiver, in sending order. Writes nothing.

    Raises NotWrittenError, SettingsError.
    """
    warehouse = settings.paths.warehouse
    receivers = make_receivers(settings.oncall)
    open_written(warehouse, ALERTS)
    relay = Relay(
        settings.oncall,
        DeliveryLog(warehouse, may_write=False),
        OperatorInput(warehouse, may_write=False),
        receivers,
        mutes=make_mutes(settings.mutes),
    )
    rows = []
    for name, box in relay.policy.outboxes.items():
        rows += [_row(name, delivery.notice, delivery.route, _why(delivery)) for delivery in box.owed()]
        rows += [
            _row(name, notice, "", "repeated: the receiver would resolve it otherwise") for notice in box.renewed()
        ]
    rows += [
        _held_row(incident_state.newest.notice, incident_state.withheld)
        for incident_state in relay.policy.incident_states.values()
        if incident_state.is_held() and incident_state.newest is not None and incident_state.withheld is not None
    ]
    for receiver in receivers.values():
        receiver.close()
    return rows


def _why(delivery: Delivery) -> str:
    if delivery.acknowledgement is not None:
        return f"acknowledged by {delivery.acknowledgement.acknowledged_by}"
    if not delivery.attempts:
        return "pending"
    return f"pending after {delivery.attempts} failed {'call' if delivery.attempts == 1 else 'calls'}"


def _row(receiver: str, notice: Notice, route: str, why: str) -> dict[str, Any]:
    return {
        "receiver": receiver,
        "status": notice.status,
        "kind": notice.kind,
        "severity": notice.severity,
        "incident_id": notice.incident_id,
        "route": route,
        "why": why,
        "summary": notice.summary,
    }


def _held_row(notice: Notice, withheld: WithheldReason) -> dict[str, Any]:
    return _row(EVERYBODY, notice, "", HELD[withheld.outcome].format(withheld.reason))
