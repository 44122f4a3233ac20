"""`balancewatch faults`: producers' FaultItems, available and not."""

from typing import Annotated

import typer

from streaming.history.asked import At, Broker, Cluster, Current, FormatName, Limit, Since, Until, Warehouse, ask

STATES = ("AVAILABLE", "UNAVAILABLE")


def faults(
    current: Current = False,
    since: Since = None,
    until: Until = None,
    at: At = None,
    state: Annotated[str | None, typer.Option(help="Only available or unavailable ones.")] = None,
    cluster: Cluster = None,
    broker: Broker = None,
    client: Annotated[str | None, typer.Option(help="Only this producer's ClientId, or a glob.")] = None,
    format_: FormatName = "table",
    limit: Limit = None,
    warehouse: Warehouse = None,
) -> None:
    """Print which producer avoids which broker, since when and until when: FaultItems from Delta, oldest first.

    Example: balancewatch faults --current --state unavailable

    Example: balancewatch faults --broker broker-b --since 2h --format csv
    """
    from schemas.tables import FAULT_ITEMS
    from streaming.history.answering import answer
    from streaming.history.printing import print_table, told, when
    from streaming.history.selecting import Subject, equals

    asked = ask(
        since=since,
        until=until,
        at=at,
        current=current,
        cluster=cluster,
        broker=broker,
        state=state,
        states=STATES,
        format_=format_,
        limit=limit,
        warehouse=warehouse,
    )
    subject = Subject(
        FAULT_ITEMS,
        broker=equals("broker_name"),
        state="CASE WHEN available THEN 'AVAILABLE' ELSE 'UNAVAILABLE' END",
        more={"client": equals("client_id")},
    )
    layout = {
        **when("changed_at"),
        "broker": lambda row: f"{row['broker_name']} of {row['cluster']}",
        "producer": lambda row: f"{row['client_id']} ({row['client_version']})",
        "it is": lambda row: told("available" if row["available"] else "unavailable"),
        "latency": lambda row: f"{row['current_latency_ms']:,} ms" + (", send failed" if row["isolation"] else ""),
        **when("start_timestamp", "avoided until"),
    }
    answer(subject, asked, lambda rows: print_table(rows, layout), "No FaultItem matches.", more={"client": client})
