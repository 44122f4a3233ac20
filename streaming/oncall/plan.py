"""What a relay that starts now would tell whom, and why; and what it would not tell, and why not."""

from typing import Any

from conf.settings import Settings
from schemas.tables import ALERTS
from streaming.history.alerts import WarehouseError
from streaming.oncall.duty import Duty
from streaming.oncall.ledger import Ledger, Words, is_table
from streaming.oncall.notice import Notice
from streaming.oncall.record import EVERYBODY
from streaming.oncall.relay import Relay
from streaming.oncall.story import Hold
from streaming.oncall.switchboard import make_receivers

HELD = {
    "SILENCED": "not told: silence {} covers it",
    "SUPPRESSED": "not told: {} explains it",
    "HELD_BACK": "not told: {}",
    "UNROUTED": "not told: {}",
}


def plan_rows(settings: Settings) -> list[dict[str, Any]]:
    """One row a notice and receiver, in the order of sending. Writes nothing. Raises WarehouseError, SettingsError."""
    warehouse = settings.paths.warehouse
    receivers = make_receivers(settings.oncall)
    if not is_table(warehouse, ALERTS):
        raise WarehouseError(f"paths.warehouse = {str(warehouse)!r}: no alerts table there; has `run` written it?")
    relay = Relay(
        settings.oncall,
        Ledger(warehouse, may_write=False),
        Words(warehouse, may_write=False),
        receivers,
    )
    rows = []
    for name, box in relay.desk.outboxes.items():
        rows += [_row(name, duty.notice, duty.route, _why(duty)) for duty in box.owed()]
        rows += [_row(name, notice, "", "told again: it holds a lease") for notice in box.renewed()]
    rows += [
        _held_row(story.newest.notice, story.hold)
        for story in relay.desk.stories.values()
        if story.is_held() and story.newest is not None and story.hold is not None
    ]
    for receiver in receivers.values():
        receiver.close()
    return rows


def _why(duty: Duty) -> str:
    if duty.acknowledgement is not None:
        return f"acknowledged by {duty.acknowledgement.owner}"
    return f"due, tried {duty.attempts} times" if duty.attempts else "due"


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


def _held_row(notice: Notice, hold: Hold) -> dict[str, Any]:
    return _row(EVERYBODY, notice, "", HELD[hold.outcome].format(hold.reason))
