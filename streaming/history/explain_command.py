"""`balancewatch explain`: the history of an incident."""

from typing import Annotated

import typer

from schemas.tables import ALERTS, QUALITY, QUARANTINE, TABLES
from streaming.history.incident_story import UnknownIncidentError, find_incident, newest_incident, read_story
from streaming.history.query_options import FORMAT, parse_options
from streaming.history.running import open_history
from streaming.history.story_printing import print_story, print_story_json
from streaming.terminal.command import fail
from streaming.terminal.setting_options import Warehouse
from streaming.warehouse.warehouse_error import WarehouseError
from udfs.alerts.runbook import runbook_url


def explain(
    incident: Annotated[
        str | None,
        typer.Argument(help="An incident_id or its prefix. Default: the incident that fired last.", metavar="INCIDENT"),
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="table (text) or json.", metavar=FORMAT)] = "table",
    warehouse: Warehouse = None,
) -> None:
    """Print the history of an incident: steps, members, queues, causes, effects and notifications.

    Times are UTC, with local time beside them where it differs.

    Example: balancewatch explain

    Example: balancewatch explain c87a8d88

    Example: balancewatch explain c87a8d8867cd0128-1795258351124 --format json | jq '.moves[] | .queue'
    """

    options = parse_options(format_=format_, formats=("table", "json"), warehouse=warehouse)
    beside = [table for table in TABLES.values() if table not in (ALERTS, QUARANTINE, QUALITY)]
    try:
        history = open_history(options, ALERTS, *beside)
        incident_id = newest_incident(history) if incident is None else find_incident(history, incident)
        if incident_id is None:
            fail("the alerts table is empty: no incident to explain")
        story = read_story(history, incident_id)
    except (WarehouseError, UnknownIncidentError) as error:
        fail(str(error))
    runbook = runbook_url(options.runbooks_url, story.kind, story.cause)
    print_story_json(story, runbook) if options.format == "json" else print_story(story, runbook)
