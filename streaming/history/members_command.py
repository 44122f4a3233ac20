"""`balancewatch members`: who joined and left consumer groups, in each broker's view."""

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
    Until,
    Warehouse,
    ask,
)

CHANGES = ("JOINED", "CHANGED", "LEFT", "EXPIRED")
MEMBERS = ("JOINED", "CHANGED")


def members(
    current: Current = False,
    since: Since = None,
    until: Until = None,
    at: At = None,
    state: Annotated[
        str | None,
        typer.Option(
            help=f"Only these changes: {', '.join(CHANGES)}; several with commas. With --current or --at "
            f"{' and '.join(MEMBERS)} where it is not given."
        ),
    ] = None,
    cluster: Cluster = None,
    group: Group = None,
    topic: Annotated[
        str | None, typer.Option(help="Only who subscribes this topic, or one that the glob finds.")
    ] = None,
    broker: Broker = None,
    client: Annotated[str | None, typer.Option(help="Only this ClientId, or a glob.")] = None,
    format_: FormatName = "table",
    limit: Limit = None,
    warehouse: Warehouse = None,
) -> None:
    """Print who joined, changed in, left or expired from a consumer group in each broker's view, oldest first.

    With --current or --at the newest change of each channel that is a member then, one that JOINED or CHANGED; those
    that left or expired where --state asks for them.

    Example: balancewatch members --current --group billing

    Example: balancewatch members --current --state LEFT,EXPIRED

    Example: balancewatch members --since 2h --client '10.0.0.5@*' --format json
    """
    from schemas.tables import MEMBERSHIPS
    from streaming.history.answering import answer
    from streaming.history.printing import print_table, told, when
    from streaming.history.selecting import Subject, any_of, equals

    if state is None and (current or at is not None):
        state = ",".join(MEMBERS)
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
        states=CHANGES,
        format_=format_,
        limit=limit,
        warehouse=warehouse,
    )
    subject = Subject(
        MEMBERSHIPS,
        group=equals("consumer_group"),
        topic=any_of("coalesce(topics, [])"),
        broker=equals("broker_name"),
        state="change",
        more={"client": equals("client_id")},
    )
    layout = {
        **when("changed_at"),
        "change": lambda row: told(row["change"]),
        "member": lambda row: f"{row['client_id']} at {row['client_addr']}",
        "group, broker's view": lambda row: f"{row['consumer_group']}, {row['broker_name']} of {row['cluster']}",
        "subscribes": lambda row: " ".join(filter(None, row["topics"] or ())),
        "runs": lambda row: " ".join(filter(None, (row["language"], row["client_version"], row["strategy"]))),
    }
    answer(subject, asked, lambda rows: print_table(rows, layout), "No member matches.", more={"client": client})
