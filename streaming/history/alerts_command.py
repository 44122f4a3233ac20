"""`balancewatch alerts`: the steps in the life of incidents."""

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

STATES = ("PENDING", "FIRING", "RECOVERING", "RESOLVED", "UNKNOWN")


def alerts(
    current: Current = False,
    since: Since = None,
    until: Until = None,
    at: At = None,
    kind: Annotated[str | None, typer.Option(help="Only this kind: starved_queue, duplicate_client_id.")] = None,
    state: Annotated[str | None, typer.Option(help=f"Only these: {', '.join(STATES)}; several with commas.")] = None,
    cluster: Cluster = None,
    group: Group = None,
    topic: Topic = None,
    broker: Broker = None,
    format_: FormatName = "table",
    limit: Limit = None,
    warehouse: Warehouse = None,
) -> None:
    """Print the alerts' transitions from Delta, oldest first; no JVM is started.

    --state is asked of the newest row of each with --current or --at. --broker also finds the brokers of its queues.

    Example: balancewatch alerts --current --state FIRING

    Example: balancewatch alerts --since 2h --group 'billing*' --format json

    Example: balancewatch alerts --at 03:12 --broker broker-a
    """
    from schemas.tables import ALERTS
    from streaming.history.alerts import present_alert
    from streaming.history.answering import answer
    from streaming.history.printing import print_alerts
    from streaming.history.selecting import Subject, any_of, equals

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
        states=STATES,
        format_=format_,
        limit=limit,
        warehouse=warehouse,
    )
    brokers = (
        "list_concat(string_split(coalesce(broker_name, ''), ','), "
        "list_transform(coalesce(queues, []), lambda queue: regexp_replace(queue, ':[0-9]+$', '')))"
    )
    subject = Subject(
        ALERTS,
        group=equals("consumer_group"),
        topic=equals("topic"),
        broker=any_of(brokers),
        state="state",
        more={"kind": equals("kind")},
    )
    answer(
        subject,
        asked,
        lambda rows: print_alerts([present_alert(row) for row in rows], "table"),
        "No alert matches.",
        present_alert,
        more={"kind": kind},
    )
