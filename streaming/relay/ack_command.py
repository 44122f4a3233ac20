"""`balancewatch ack`: acknowledge an incident."""

from typing import Annotated

import typer

from schemas.tables import ALERTS
from streaming.relay.outbox import Acknowledgement
from streaming.relay.tables import OperatorInput
from streaming.store.alerts import UnknownIncidentError, find_incident
from streaming.store.store import History
from streaming.terminal.command import fail, load
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import say
from streaming.text.times import iso, wall_ms
from streaming.warehouse.warehouse_error import WarehouseError

MOST_CHARACTERS = 1_000


def ack(
    incident: Annotated[
        str, typer.Argument(help="An incident_id or its prefix, as `alerts` prints it.", metavar="INCIDENT")
    ],
    owner: Annotated[str, typer.Option(help="Person who handles the incident.", metavar="NAME")],
    note: Annotated[str, typer.Option(help="Message for others.", metavar="TEXT")],
    warehouse: Warehouse = None,
) -> None:
    """Acknowledge an incident; PagerDuty stops escalating.

    The relay forwards the acknowledgement to PagerDuty within seconds. `explain` and the board show it.

    Example: balancewatch ack c87a8d88 --owner ada --note "restarting the twin"
    """

    for flag, text in (("--owner", owner), ("--note", note)):
        if not text.strip() or len(text) > MOST_CHARACTERS:
            fail(f"{flag} {text[:50]!r}: give 1 to {MOST_CHARACTERS} characters", code=2)
    settings = load(paths={"warehouse": warehouse})
    try:
        history = History(settings.paths.warehouse, [ALERTS])
        incident_id = find_incident(history, incident)
        (found,) = history.rows("SELECT * FROM alerts_now WHERE incident_id = $id", {"id": incident_id})
    except (WarehouseError, UnknownIncidentError) as error:
        fail(str(error))
    if found["state"] == "RESOLVED":
        fail(f"INCIDENT {incident_id} was resolved at {iso(found['changed_at'])}; only an open one can be acknowledged")
    OperatorInput(settings.paths.warehouse).add_acknowledgement(Acknowledgement(incident_id, owner, note, wall_ms()))
    say(f"{incident_id} acknowledged by {owner}: {found['summary']}")
