"""`balancewatch assignments`: planned owner, observed owners and verdict of queues."""

from typing import Annotated

import typer

from streaming.history.asked import (
    At,
    Broker,
    Cluster,
    Current,
    FormatName,
    Group,
    Limit,
    Since,
    Topic,
    Until,
    Warehouse,
    ask,
)

VERDICTS = ("OK", "STARVED", "SILENT", "DOUBLED", "MISPLACED", "NOT_JUDGED", "UNKNOWN")


def assignments(
    current: Current = False,
    since: Since = None,
    until: Until = None,
    at: At = None,
    state: Annotated[
        str | None, typer.Option(help=f"Only these verdicts: {', '.join(VERDICTS)}; several with commas.")
    ] = None,
    cluster: Cluster = None,
    group: Group = None,
    topic: Topic = None,
    broker: Broker = None,
    format_: FormatName = "table",
    limit: Limit = None,
    warehouse: Warehouse = None,
) -> None:
    """Print who is meant to consume each queue, who does, and the verdict: each change from Delta, oldest first.

    Example: balancewatch assignments --current --group billing

    Example: balancewatch assignments --at 03:12 --state STARVED,SILENT --format json

    Example: balancewatch assignments --since 2h --topic 'orders*' --broker broker-a --format parquet > moves.parquet
    """
    from schemas.tables import ASSIGNMENTS
    from streaming.history.answering import answer
    from streaming.history.printing import print_table, told, when
    from streaming.history.selecting import Subject, equals

    asked = ask(
        since=since,
        until=until,
        at=at,
        current=current,
        cluster=cluster,
        group=group,
        topic=topic,
        broker=broker,
        state=state,
        states=VERDICTS,
        format_=format_,
        limit=limit,
        warehouse=warehouse,
    )
    subject = Subject(
        ASSIGNMENTS,
        group=equals("consumer_group"),
        topic=equals("topic"),
        broker=equals("broker_name"),
        state="verdict",
    )
    layout = {
        **when("changed_at"),
        "queue": lambda row: (
            f"{row['topic']} {row['broker_name']}:{row['queue_id']} of {row['consumer_group']} ({row['cluster']})"
        ),
        "verdict": lambda row: told(row["verdict"]),
        "meant for": lambda row: row["planned_owner"] or "nobody",
        "pulled by": lambda row: " and ".join(filter(None, row["observed_owners"] or ())) or "nobody",
    }
    answer(subject, asked, lambda rows: print_table(rows, layout), "No queue matches.")
