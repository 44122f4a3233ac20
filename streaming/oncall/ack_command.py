"""`balancewatch ack`: somebody is at an incident."""

from typing import Annotated

import typer

from streaming.oncall.delivery import Acknowledgement
from streaming.oncall.delivery_log import OperatorInput
from streaming.store.alerts import Filter, WarehouseError, read_alerts
from streaming.terminal.command import fail, load
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import say
from streaming.text.times import wall_ms

MOST_CHARACTERS = 1_000


def ack(
    incident: Annotated[str, typer.Argument(help="An incident_id, as `balancewatch alerts` prints it in JSON.")],
    owner: Annotated[str, typer.Option(help="Who is at it.")],
    note: Annotated[str, typer.Option(help="What they say.")],
    warehouse: Warehouse = None,
) -> None:
    """Say that somebody is at an incident. PagerDuty is told within seconds and stops escalating.

    Example: balancewatch ack c87a8d8867cd0128-1795258351124 --owner ada --note "restarting the twin"
    """

    for flag, text in (("--owner", owner), ("--note", note)):
        if not text.strip() or len(text) > MOST_CHARACTERS:
            fail(f"{flag} {text[:50]!r}: give 1 to {MOST_CHARACTERS} characters", code=2)
    settings = load(paths={"warehouse": warehouse})
    try:
        rows = read_alerts(settings.paths.warehouse, Filter(), current=True)
    except WarehouseError as error:
        fail(str(error))
    found = next((row for row in rows if row["incident_id"] == incident), None)
    if found is None:
        fail(f"INCIDENT {incident!r} is not known; `balancewatch alerts --current --format json` has incident_ids", 2)
    if found["state"] == "RESOLVED":
        fail(f"INCIDENT {incident!r} is over since {found['changed_at']}; nothing to acknowledge")
    OperatorInput(settings.paths.warehouse).add_acknowledgement(Acknowledgement(incident, owner, note, wall_ms()))
    say(f"{incident} acknowledged by {owner}: {found['summary']}")
