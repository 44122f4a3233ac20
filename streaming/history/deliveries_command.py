"""`balancewatch deliveries`: what was owed to whom, what came of it, or why nobody was told."""

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

OUTCOMES = ("DUE", "DELIVERED", "RETRYING", "REFUSED", "SILENCED", "SUPPRESSED", "HELD_BACK", "UNROUTED")


def deliveries(
    current: Current = False,
    since: Since = None,
    until: Until = None,
    at: At = None,
    state: Annotated[
        str | None, typer.Option(help=f"Only these outcomes: {', '.join(OUTCOMES)}; several with commas.")
    ] = None,
    incident: Annotated[str | None, typer.Option(help="Only this incident, or a glob.")] = None,
    receiver: Annotated[str | None, typer.Option(help="Only this receiver, or a glob.")] = None,
    cluster: Cluster = None,
    group: Group = None,
    topic: Topic = None,
    broker: Broker = None,
    format_: FormatName = "table",
    limit: Limit = None,
    warehouse: Warehouse = None,
) -> None:
    """Print the delivery log with the cluster, group, topic and broker of each incident, oldest first.

    --current and --at have the newest row of each incident, receiver and state told: DUE or RETRYING is still owed.

    Example: balancewatch deliveries --since 1d --state REFUSED,RETRYING

    Example: balancewatch deliveries --incident 'c87a8d8867cd0128-*' --format json
    """
    from schemas.tables import ALERT_DELIVERIES, ALERTS
    from streaming.history.answering import answer
    from streaming.history.printing import print_table, told, when
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
        states=OUTCOMES,
        format_=format_,
        limit=limit,
        warehouse=warehouse,
    )
    subject = Subject(
        ALERT_DELIVERIES,
        group=equals("consumer_group"),
        topic=equals("topic"),
        broker=any_of("string_split(coalesce(broker_name, ''), ',')"),
        state="outcome",
        wrap=(
            "SELECT log.*, incident.cluster, incident.consumer_group, incident.topic, incident.broker_name "
            "FROM {rows} AS log LEFT JOIN (SELECT DISTINCT ON (incident_id) incident_id, cluster, consumer_group, "
            "topic, broker_name FROM alerts ORDER BY incident_id, changed_at DESC) AS incident USING (incident_id)"
        ),
        more={"incident": equals("incident_id"), "receiver": equals("receiver")},
    )
    layout = {
        **when("delivered_at"),
        "incident": lambda row: f"{row['incident_id']} {row['kind'] or ''} {row['status'] or ''}".strip(),
        "of": lambda row: " ".join(filter(None, (row["cluster"], row["consumer_group"], row["topic"]))),
        "receiver": lambda row: "nobody" if row["receiver"] == "*" else row["receiver"],
        "outcome": lambda row: told(row["outcome"] or ""),
        "attempt": lambda row: (
            f"{row['attempt']}: {row['code'] or 'no code'} in {row['latency_ms']} ms" if row["attempt"] else ""
        ),
        "reason": lambda row: row["reason"] or "",
    }
    answer(
        subject,
        asked,
        lambda rows: print_table(rows, layout),
        "No delivery matches.",
        beside=(ALERTS,),
        more={"incident": incident, "receiver": receiver},
    )
