"""`balancewatch quarantine`: what was refused and why, repaired, and published again once."""

import getpass
from pathlib import Path
from typing import Annotated, Any

import typer

from conf.location import Location
from schemas.tables import QUARANTINE, REPAIRS
from streaming.history.query_options import (
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
    typer.Option(help="Only with this reason: missing_field, 'wrong_type: queue_id', globs such as 'not_*'."),
]
State = Annotated[str | None, typer.Option(help=f"Only in this state, or several with commas: {', '.join(STATES)}.")]
Current = Annotated[
    bool,
    typer.Option("--current", help=f"Only what still waits for somebody: {', '.join(OPEN)}; not what is REPLAYED."),
]
TopicPlace = Annotated[str | None, typer.Argument(help="The Kafka topic.", metavar="[TOPIC]")]
Partition = Annotated[int | None, typer.Argument(help="Its partition.", min=0, metavar="[PARTITION]")]
Offset = Annotated[int | None, typer.Argument(help="The message's offset in it.", min=0, metavar="[OFFSET]")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]
Owner = Annotated[str | None, typer.Option(help="Who does it; you without it.")]


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
    """Messages that broke their contract: where they were, why they were refused, and how they stand.

    WAITING has not been touched, REPAIRED may be replayed, REPLAYED is in Kafka again. UNKNOWN was claimed by a replay
    that did not live to say what came of it: it is never published again; `balancewatch quarantine find` looks for it.

    Times are Kafka's. --at has the messages that were in Kafka by then, as they stood then. A message that broke its
    contract may tell neither cluster nor group nor broker, so they are no options here.

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
    topic: Annotated[str, typer.Argument(help="The Kafka topic.")],
    partition: Annotated[int, typer.Argument(help="Its partition.", min=0)],
    offset: Annotated[int, typer.Argument(help="The message's offset in it.", min=0)],
    raw: Annotated[bool, typer.Option("--raw", help="The bytes as they are, to a file or a pipe.")] = False,
    warehouse: Warehouse = None,
) -> None:
    """Show one message: its bytes, safely, why it was refused, and what today's contract says of it.

    Example: balancewatch quarantine show rocketmq.pulls 0 1742

    Example: balancewatch quarantine show rocketmq.pulls 0 1742 --raw > event.json
    """

    row = _one(load(paths={"warehouse": warehouse}).paths.warehouse, topic, partition, offset)
    if not raw:
        print_message(row)
        return
    if is_terminal():
        fail("--raw writes bytes: send them to a file (> event.json) or a pipe", code=2)
    bytes_out().write(row["raw"] or b"")


@quarantine.command()
def repair(
    topic_: TopicPlace = None,
    partition: Partition = None,
    offset: Offset = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="FIELD=VALUE, JSON or text; repeat for more. a.b, a[0].b go deeper."),
    ] = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", help="Take FIELD away; repeat for more.")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="The whole event, JSON, instead of what it was.")] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Change it in $EDITOR.")] = False,
    topic: Topic = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    dry_run: DryRun = False,
    owner: Owner = None,
    warehouse: Warehouse = None,
) -> None:
    """Make refused messages good, for `quarantine replay`: one, or by --set and --unset all that match a filter.

    What the contract would still refuse is told and not kept. Ends with 1 when nothing could be repaired.

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
    all_: Annotated[bool, typer.Option("--all", help="All that can be replayed, without a filter.")] = False,
    unchanged: Annotated[
        bool, typer.Option("--unchanged", help="Also what nobody repaired and today's contract takes as it is.")
    ] = False,
    old: Annotated[bool, typer.Option("--old", help="Old routes, too, though they would hide newer ones.")] = False,
    dry_run: DryRun = False,
    owner: Owner = None,
    bootstrap_servers: BootstrapServers = None,
    warehouse: Warehouse = None,
) -> None:
    """Publish repaired messages to their topic again, each once, whatever crashes and however many people try.

    A message is claimed before it is published; a claim without an end is UNKNOWN and not tried again. What the stream
    refuses again is another message in quarantine. Ends with 1 when one is UNKNOWN afterwards.

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
    topic: Annotated[str, typer.Argument(help="The Kafka topic.")],
    partition: Annotated[int, typer.Argument(help="Its partition.", min=0)],
    offset: Annotated[int, typer.Argument(help="The quarantined message's offset in it.", min=0)],
    bootstrap_servers: BootstrapServers = None,
    warehouse: Warehouse = None,
) -> None:
    """Look in Kafka whether an UNKNOWN message was published after all; if so, it is REPLAYED from now on.

    Ends with 1 when it is not there.

    Example: balancewatch quarantine find rocketmq.pulls 0 1742
    """

    settings = load(kafka={"bootstrap_servers": bootstrap_servers}, paths={"warehouse": warehouse})
    needs_kafka(settings)
    row = _one(settings.paths.warehouse, topic, partition, offset)
    run_or_exit(find_one, settings, row, _owner(None))


def _one(warehouse: Location, topic: str, partition: int, offset: int) -> Any:
    """The newest message of that place. Leaves with 1 when there is none."""

    try:
        rows = read_quarantined(open_quarantine(warehouse), QuarantineFilter(topic, partition, offset), 100)
    except WarehouseError as error:
        fail(str(error))
    if not rows:
        fail(f"{topic}-{partition}@{offset} is not in quarantine; `balancewatch quarantine` lists what is")
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
    """A place, or a filter; leaves with 2 for neither, or both."""
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
    """A code alone means every field's. Leaves with 2 for one that nobody means."""
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
