"""`balancewatch owner`: planned owner and actual consumers of a queue."""

from typing import Annotated

import typer

from schemas.tables import ASSIGNMENTS
from streaming.history.ownership import SCHEMA, Queue, UnknownQueueError, describe_owners, read_owners, record_of
from streaming.history.query_options import FORMAT, GLOB, At, Cluster, parse_options
from streaming.history.running import open_history
from streaming.store.freshness import LIVE_TABLES, describe_stale, read_freshness
from streaming.terminal.command import fail
from streaming.terminal.printing import plain, print_records
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import say
from streaming.text.times import wall_ms
from streaming.warehouse.warehouse_error import WarehouseError


def owner(
    topic: Annotated[str, typer.Argument(help="The topic.", metavar="TOPIC")],
    queue: Annotated[str, typer.Argument(help="The queue, such as broker-a:7.", metavar="BROKER:QUEUE")],
    at: At = None,
    group: Annotated[
        str | None, typer.Option(help="Only this group, or a glob. Default: all groups of the topic.", metavar=GLOB)
    ] = None,
    cluster: Cluster = None,
    format_: Annotated[
        str, typer.Option("--format", help="table (a line for each group), json, csv or parquet.", metavar=FORMAT)
    ] = "table",
    warehouse: Warehouse = None,
) -> None:
    """Print the planned owner and the actual consumers of a queue, now or at a given time.

    The line also has the verdict and since when it is certain; of an open alert, when its trouble began and how to fix
    it.

    Example: balancewatch owner orders broker-a:7 --group billing --at 03:12

    Example: balancewatch owner orders broker-a:7 --format json
    """

    broker_name, _, number = queue.rpartition(":")
    if not broker_name or not number.isdecimal() or len(number) > 9:
        fail(f"BROKER:QUEUE {queue[:80]!r}: give a broker name and a queue number, such as broker-a:7", code=2)
    options = parse_options(at=at, group=group, cluster=cluster, format_=format_, warehouse=warehouse)
    at_ms = wall_ms() if options.at_ms is None else options.at_ms
    try:
        history = open_history(options, ASSIGNMENTS, *LIVE_TABLES)
        found = read_owners(history, Queue(topic, broker_name, int(number), group, cluster), at_ms)
        freshness = read_freshness(history, at_ms, options.stale_ms)
    except (WarehouseError, UnknownQueueError) as error:
        fail(str(error))
    if options.format == "table":
        stale = describe_stale(freshness)
        for owners in found:
            line = describe_owners(owners)
            say(f"{line.removesuffix('.')}; {stale}" if stale else line)
        return
    rows = [record_of(owners, freshness) for owners in found]
    print_records(rows if options.format == "parquet" else [plain(row) for row in rows], options.format, SCHEMA)
