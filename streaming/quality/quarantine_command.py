"""`balancewatch quarantine`: list, repair and replay messages that broke their contract."""

import getpass
from pathlib import Path
from typing import Annotated, Any

import typer

from conf.location import Location
from schemas.tables import QUARANTINE, REPAIRS
from streaming.history.query_options import (
    GLOB,
    At,
    FormatName,
    Limit,
    Since,
    Topic,
    Until,
    is_terminal,
    parse_options,
)
from streaming.history.running import print_notes
from streaming.quality.filters import OPEN, STATES, QuarantineFilter
from streaming.quality.quarantine_printing import print_message
from streaming.quality.quarantine_work import Asked, Change, find_one, repair_all, replay_all
from streaming.quality.quarantined import list_quarantined, open_quarantine, read_quarantined
from streaming.quality.repairs import Place
from streaming.terminal.command import fail, load, needs_kafka, run_or_exit
from streaming.terminal.printing import Layout, print_answer, print_table, time_columns
from streaming.terminal.setting_options import BootstrapServers, Warehouse
from streaming.text.output import bytes_out
from streaming.warehouse.warehouse_error import WarehouseError

quarantine = typer.Typer(invoke_without_command=True, add_completion=False, rich_markup_mode=None)

MOST_REASON = 1_000

Reason = Annotated[
    str | None,
    typer.Option(
        help="Only with this reason: missing_field, 'wrong_type: queue_id' or a glob such as 'not_*'.", metavar=GLOB
    ),
]
State = Annotated[
    str | None, typer.Option(help=f"Only these states, with commas: {', '.join(STATES)}.", metavar="STATE")
]
Current = Annotated[
    bool,
    typer.Option("--current", help=f"Only open messages: {', '.join(OPEN)}, not REPLAYED."),
]
TopicPlace = Annotated[str | None, typer.Argument(help="Kafka topic.", metavar="TOPIC")]
Partition = Annotated[int | None, typer.Argument(help="Partition.", min=0, metavar="PARTITION")]
Offset = Annotated[int | None, typer.Argument(help="Offset of the message.", min=0, metavar="OFFSET")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done; change nothing.")]
Owner = Annotated[str | None, typer.Option(help="Person responsible. Default: your user name.", metavar="NAME")]


@quarantine.callback()
def listed(
    context: typer.Context,
    current: Current = False,
    topic: Topic = None,
    reason: Reason = None,
    state: State = None,
    since: Since = None,
    until: Until = None,
    at: At = None,
    limit: Limit = None,
    format_: FormatName = "table",
    warehouse: Warehouse = None,
) -> None:
    """List, repair and replay messages that broke their contract.

    States: WAITING (untouched), REPAIRED (can be replayed), REPLAYED (published again), UNKNOWN (a replay claimed the
    message and ended before Kafka confirmed it). An UNKNOWN message is never published again; `balancewatch quarantine
    find` searches Kafka for it.

    Times are Kafka timestamps. --at lists messages by their state at that time. There are no options for cluster, group
    and broker, because an invalid message can lack them.

    Example: balancewatch quarantine --current

    Example: balancewatch quarantine --topic rocketmq.pulls --reason 'wrong_type*' --since 2h --format json
    """
    if context.invoked_subcommand is not None:
        return

    asked = parse_options(
        topic=topic,
        since=since,
        until=until,
        at=at,
        current=current,
        state=state,
        states=OPEN if current else STATES,
        limit=limit,
        format_=format_,
        warehouse=warehouse,
    )
    states = asked.states or (OPEN if current else ())
    wanted = QuarantineFilter(topic, None, None, _glob(reason), asked.since_ms, asked.until_ms, states, asked.at_ms)
    layout: Layout = {
        **time_columns("ingest_time"),
        "message": lambda row: f"{row['topic']}-{row['partition']}@{row['offset']}",
        "reasons": lambda row: "\n".join(row["reasons"][:5]) + ("\n…" if len(row["reasons"]) > 5 else ""),
        "bytes": lambda row: f"{row['bytes']:,}",
        "state": lambda row: row["state"],
    }
    try:
        history = open_quarantine(asked.warehouse)
        found = list_quarantined(history, wanted, asked.limit)
        nothing = "No quarantined message matches."
        print_answer(found.rows, asked.format, lambda rows: print_table(rows, layout), nothing)
    except WarehouseError as error:
        fail(str(error))
    print_notes(asked, history, (QUARANTINE, REPAIRS), is_cut=found.is_cut)


@quarantine.command()
def show(
    topic: Annotated[str, typer.Argument(help="Kafka topic.", metavar="TOPIC")],
    partition: Annotated[int, typer.Argument(help="Partition.", min=0, metavar="PARTITION")],
    offset: Annotated[int, typer.Argument(help="Offset of the message.", min=0, metavar="OFFSET")],
    raw: Annotated[bool, typer.Option("--raw", help="Write the unchanged bytes to a file or a pipe.")] = False,
    warehouse: Warehouse = None,
) -> None:
    """Show one message: its bytes, why it was rejected, and whether today's contract accepts it.

    Example: balancewatch quarantine show rocketmq.pulls 0 1742

    Example: balancewatch quarantine show rocketmq.pulls 0 1742 --raw > event.json
    """

    row = _one(load(paths={"warehouse": warehouse}).paths.warehouse, topic, partition, offset)
    if not raw:
        print_message(row)
        return
    if is_terminal():
        fail("--raw writes bytes: redirect them to a file (> event.json) or a pipe", code=2)
    bytes_out().write(row["raw"] or b"")


@quarantine.command()
def repair(
    topic_: TopicPlace = None,
    partition: Partition = None,
    offset: Offset = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Set a field (a, a.b or a[0].b) to JSON or text; repeat for more.", metavar="FIELD=VALUE"
        ),
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", help="Remove a field; repeat for more.", metavar="FIELD")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", help="Replace the event by this JSON.", metavar="FILE")] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Edit the event in $EDITOR.")] = False,
    topic: Topic = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    dry_run: DryRun = False,
    owner: Owner = None,
    warehouse: Warehouse = None,
) -> None:
    """Repair one message, or with --set and --unset all that match a filter; `quarantine replay` then publishes them.

    A repair that still breaks the contract is reported and not kept. Exit code 1: no message was repaired.

    Example: balancewatch quarantine repair rocketmq.pulls 0 1742 --set queue_id=3 --unset broker

    Example: balancewatch quarantine repair --topic rocketmq.pulls --reason 'missing_field: cluster' --since 2h
    --set cluster=prod-a --dry-run
    """

    if sum((bool(set_ or unset), file is not None, edit)) != 1:
        fail("give one of --set/--unset, --file or --edit", code=2)
    wanted = _wanted((topic_, partition, offset), topic, reason, since, until)
    if wanted.offset is None and (file is not None or edit):
        fail("--file and --edit are for one message: give TOPIC PARTITION OFFSET", code=2)
    settings = load(paths={"warehouse": warehouse})
    change = Change(tuple(set_ or ()), tuple(unset or ()), file, edit)
    done = repair_all(settings.paths.warehouse, wanted, change, _owner(owner), dry_run=dry_run)
    if not done:
        raise typer.Exit(1)


@quarantine.command()
def replay(
    topic_: TopicPlace = None,
    partition: Partition = None,
    offset: Offset = None,
    topic: Topic = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    all_: Annotated[bool, typer.Option("--all", help="Replay all repaired messages, without a filter.")] = False,
    unchanged: Annotated[
        bool, typer.Option("--unchanged", help="Also unrepaired messages that today's contract accepts.")
    ] = False,
    old: Annotated[bool, typer.Option("--old", help="Also old routes, although they hide newer ones.")] = False,
    dry_run: DryRun = False,
    owner: Owner = None,
    bootstrap_servers: BootstrapServers = None,
    warehouse: Warehouse = None,
) -> None:
    """Publish repaired messages to their topic again, each at most once, despite crashes and concurrent replays.

    A message is claimed before it is published; a claim without a confirmation is UNKNOWN and not retried. A replayed
    message that breaks the contract again enters quarantine as a new one. Exit code 1: a message is UNKNOWN afterwards.

    Example: balancewatch quarantine replay --topic rocketmq.pulls --since 2h --dry-run

    Example: balancewatch quarantine replay rocketmq.pulls 0 1742
    """

    settings = load(kafka={"bootstrap_servers": bootstrap_servers}, paths={"warehouse": warehouse})
    if not dry_run:
        needs_kafka(settings)
    wanted = _wanted((topic_, partition, offset), topic, reason, since, until, needs_one=not all_)
    asked = Asked(unchanged, old, dry_run)
    unknown: list[Place] = []
    run_or_exit(lambda: unknown.extend(replay_all(settings, wanted, _owner(owner), asked)))
    if unknown:
        raise typer.Exit(1)


@quarantine.command()
def find(
    topic: Annotated[str, typer.Argument(help="Kafka topic.", metavar="TOPIC")],
    partition: Annotated[int, typer.Argument(help="Partition.", min=0, metavar="PARTITION")],
    offset: Annotated[int, typer.Argument(help="Offset of the quarantined message.", min=0, metavar="OFFSET")],
    bootstrap_servers: BootstrapServers = None,
    warehouse: Warehouse = None,
) -> None:
    """Search Kafka for an UNKNOWN message; if it was published, its state becomes REPLAYED.

    Exit code 1: Kafka does not have it.

    Example: balancewatch quarantine find rocketmq.pulls 0 1742
    """

    settings = load(kafka={"bootstrap_servers": bootstrap_servers}, paths={"warehouse": warehouse})
    needs_kafka(settings)
    row = _one(settings.paths.warehouse, topic, partition, offset)
    run_or_exit(find_one, settings, row, _owner(None))


def _one(warehouse: Location, topic: str, partition: int, offset: int) -> Any:
    """Return the newest message at this place. Leaves with 1 where there is none."""

    try:
        rows = read_quarantined(open_quarantine(warehouse), QuarantineFilter(topic, partition, offset), 100)
    except WarehouseError as error:
        fail(str(error))
    if not rows:
        fail(f"{topic}-{partition}@{offset} is not in quarantine; `balancewatch quarantine` lists the messages")
    return rows[-1]


def _wanted(
    place: tuple[str | None, int | None, int | None],
    topic: str | None,
    reason: str | None,
    since: str | None,
    until: str | None,
    *,
    needs_one: bool = True,
) -> QuarantineFilter:
    """Return a place or a filter. Leaves with 2 for neither or both."""
    has_filter = any(one is not None for one in (topic, reason, since, until))
    if any(one is not None for one in place):
        if None in place or has_filter:
            fail("give either TOPIC PARTITION OFFSET, or filters such as --topic and --reason", code=2)
        return QuarantineFilter(*place)
    if not has_filter and needs_one:
        fail("give TOPIC PARTITION OFFSET, or a filter: --topic, --reason, --since, --until", code=2)
    asked = parse_options(topic=topic, since=since, until=until)
    return QuarantineFilter(topic, reason=_glob(reason), since_ms=asked.since_ms, until_ms=asked.until_ms)


def _glob(reason: str | None) -> str | None:
    """Return the reason as a glob; a code alone matches all its fields. Leaves with 2 for an invalid length."""
    if reason is not None and not 0 < len(reason.strip()) <= MOST_REASON:
        fail(f"--reason {reason[:50]!r}: give 1 to {MOST_REASON} characters", code=2)
    if reason is None or ":" in reason or any(sign in reason for sign in "*?["):
        return reason
    return f"{reason}*"


def _owner(given: str | None) -> str:

    if given is not None and not 0 < len(given.strip()) <= 255:
        fail(f"--owner {given[:50]!r}: give 1 to 255 characters", code=2)
    try:
        return given or getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
