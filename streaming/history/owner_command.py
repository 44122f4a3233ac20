"""`balancewatch owner`: who was meant to consume a queue at a moment, and who did."""

from typing import Annotated

import typer

from streaming.command import fail
from streaming.history.asked import At, Cluster, Warehouse, ask


def owner(
    topic: Annotated[str, typer.Argument(help="The topic.", metavar="TOPIC")],
    queue: Annotated[str, typer.Argument(help="The queue, such as broker-a:7.", metavar="BROKER:QUEUE")],
    at: At = None,
    group: Annotated[
        str | None, typer.Option(help="Only this group, or a glob; all that have the topic without.")
    ] = None,
    cluster: Cluster = None,
    format_: Annotated[
        str, typer.Option("--format", help="table (one line a group), json, csv or parquet (one row a group).")
    ] = "table",
    warehouse: Warehouse = None,
) -> None:
    """Say in one line who was meant to consume a queue, who did, and what is wrong with it; now, or --at a moment.

    Example: balancewatch owner orders broker-a:7 --group billing --at 03:12

    Example: balancewatch owner orders broker-a:7 --format json
    """
    import time

    from schemas.tables import ASSIGNMENTS
    from streaming.history.answering import open_history
    from streaming.history.freshness import LIVE_TABLES, read_freshness, tell_stale
    from streaming.history.ownership import SCHEMA, NobodyKnowsError, Queue, read_owners, record_of, tell_owners
    from streaming.history.printing import plain, print_records
    from streaming.history.warehouse_error import WarehouseError
    from streaming.output import say

    broker_name, _, number = queue.rpartition(":")
    if not broker_name or not number.isdecimal() or len(number) > 9:
        fail(f"BROKER:QUEUE {queue[:80]!r}: give a broker's name and a queue's number, such as broker-a:7", code=2)
    asked = ask(at=at, group=group, cluster=cluster, format_=format_, warehouse=warehouse)
    at_ms = time.time_ns() // 1_000_000 if asked.at_ms is None else asked.at_ms
    try:
        history = open_history(asked, ASSIGNMENTS, *LIVE_TABLES)
        found = read_owners(history, Queue(topic, broker_name, int(number), group, cluster), at_ms)
        freshness = read_freshness(history, at_ms, asked.stale_ms)
    except (WarehouseError, NobodyKnowsError) as error:
        fail(str(error))
    if asked.format == "table":
        stale = tell_stale(freshness)
        for owners in found:
            say(tell_owners(owners) + (f"; {stale}" if stale else ""))
        return
    rows = [record_of(owners, freshness) for owners in found]
    print_records(rows if asked.format == "parquet" else [plain(row) for row in rows], asked.format, SCHEMA)
