"""`balancewatch quarantine`: list, show and replay messages that broke their contract."""

import getpass
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from conf.location import Location
from conf.settings import Settings
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
from streaming.history.table_question import is_glob, print_notes
from streaming.quality.quarantine import (
    REPLAYED,
    STATES,
    WAITING,
    ChangeError,
    QuarantineFilter,
    Ready,
    list_quarantined,
    open_quarantine,
    parse_sets,
    place_text,
    prepare,
    read_quarantined,
    validate,
)
from streaming.quality.quarantine import replay as publish_again
from streaming.terminal.command import fail, load, needs_kafka, run_or_exit
from streaming.terminal.printing import Layout, print_answer, print_table, time_columns
from streaming.terminal.setting_options import BootstrapServers, Warehouse
from streaming.text.console import VisibleConsole
from streaming.text.output import bytes_out, say
from streaming.text.times import both_times, time_text, to_ms, wall_ms
from streaming.text.visible_text import visible
from streaming.warehouse.warehouse_error import WarehouseError

quarantine = typer.Typer(invoke_without_command=True, add_completion=False, rich_markup_mode=None)

MOST_REASON = 1_000
MOST_OWNER = 255
MOST_AT_ONCE = 100_000
SHOWN = 20
"""Messages listed by a replay; the others are counted."""

MOST_CHARACTERS = 20_000
MOST_HEX_BYTES = 1_024

Reason = Annotated[
    str | None,
    typer.Option(
        help="Only with this reason: missing_field, 'wrong_type: queue_id' or a glob such as 'not_*'.", metavar=GLOB
    ),
]
TOPIC = typer.Argument(help="Kafka topic.", metavar="TOPIC")
PARTITION = typer.Argument(help="Partition.", min=0, metavar="PARTITION")
OFFSET = typer.Argument(help="Offset of the message.", min=0, metavar="OFFSET")


@quarantine.callback()
def listed(
    context: typer.Context,
    current: Annotated[bool, typer.Option("--current", help="Only WAITING messages.")] = False,
    topic: Topic = None,
    reason: Reason = None,
    state: Annotated[
        str | None, typer.Option(help=f"Only these states, with commas: {', '.join(STATES)}.", metavar="STATE")
    ] = None,
    since: Since = None,
    until: Until = None,
    at: At = None,
    limit: Limit = None,
    format_: FormatName = "table",
    warehouse: Warehouse = None,
) -> None:
    """List, show and replay messages that broke their contract.

    States: WAITING (not published again) and REPLAYED (published again).

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
        state=WAITING if current and state is None else state,
        states=(WAITING,) if current else STATES,
        limit=limit,
        format_=format_,
        warehouse=warehouse,
    )
    wanted = QuarantineFilter(
        topic, None, None, _glob(reason), asked.since_ms, asked.until_ms, list(asked.states), asked.at_ms
    )
    layout: Layout = {
        **time_columns("ingest_time"),
        "message": place_text,
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
    topic: Annotated[str, TOPIC],
    partition: Annotated[int, PARTITION],
    offset: Annotated[int, OFFSET],
    raw: Annotated[bool, typer.Option("--raw", help="Write the unchanged bytes to a file or a pipe.")] = False,
    warehouse: Warehouse = None,
) -> None:
    """Show one message: its bytes, why it was rejected, and whether today's contract accepts it.

    Example: balancewatch quarantine show rocketmq.pulls 0 1742

    Example: balancewatch quarantine show rocketmq.pulls 0 1742 --raw > event.json
    """
    warehouse_ = load(paths={"warehouse": warehouse}).paths.warehouse
    rows = _read(warehouse_, QuarantineFilter(topic, partition, offset), 1)
    if not rows:
        fail(f"{topic}-{partition}@{offset} is not in quarantine; `balancewatch quarantine` lists the messages")
    if not raw:
        _print_message(rows[0])
        return
    if is_terminal():
        fail("--raw writes bytes: redirect them to a file (> event.json) or a pipe", code=2)
    bytes_out().write(rows[0]["raw"] or b"")


@quarantine.command()
def replay(
    topic_: Annotated[str | None, TOPIC] = None,
    partition: Annotated[int | None, PARTITION] = None,
    offset: Annotated[int | None, OFFSET] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Set a field (a, a.b or a[0].b) to JSON or text; repeat for more.", metavar="FIELD=VALUE"
        ),
    ] = None,
    topic: Topic = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done; change nothing.")] = False,
    owner: Annotated[
        str | None, typer.Option(help="Person responsible. Default: your user name.", metavar="NAME")
    ] = None,
    bootstrap_servers: BootstrapServers = None,
    warehouse: Warehouse = None,
) -> None:
    """Publish messages to their topic again, after changes by --set, if today's contract accepts them.

    Each is published at least once: if a replay ends before it recorded a message, the next one publishes it again.
    Replayed messages and old routes, which would hide newer ones, are left out. Events of other topics matter for two
    minutes, sends for half an hour: older ones change no verdict. Exit code 1: nothing was published.

    Example: balancewatch quarantine replay rocketmq.pulls 0 1742 --set queue_id=3

    Example: balancewatch quarantine replay --topic rocketmq.pulls --reason 'missing_field: cluster' --since 2h
    --set cluster=prod-a --dry-run
    """
    settings = load(kafka={"bootstrap_servers": bootstrap_servers}, paths={"warehouse": warehouse})
    if not dry_run:
        needs_kafka(settings)
    wanted = _wanted((topic_, partition, offset), topic, reason, since, until)
    if owner is not None and not 0 < len(owner.strip()) <= MOST_OWNER:
        fail(f"--owner {owner[:50]!r}: give 1 to {MOST_OWNER} characters", code=2)
    try:
        sets = parse_sets(set_ or ())
    except ChangeError as error:
        fail(str(error), code=2)
    rows = _read(settings.paths.warehouse, wanted, MOST_AT_ONCE + 1)
    if not rows:
        fail("no quarantined message matches")
    if len(rows) > MOST_AT_ONCE:
        fail(
            f"more than {MOST_AT_ONCE:,} messages match; narrow the filter with --topic, --reason, --since or --until",
            code=2,
        )
    ready = _prepare(rows, sets)
    if not ready:
        fail("nothing to publish")
    if dry_run:
        say(f"{len(ready):,} would be published.")
        return
    run_or_exit(lambda: _publish(settings, ready, owner or _user_name()))


def _wanted(
    place: tuple[str | None, int | None, int | None],
    topic: str | None,
    reason: str | None,
    since: str | None,
    until: str | None,
) -> QuarantineFilter:
    """Return a place or a filter. Leaves with 2 for neither or both."""
    has_filter = any(given is not None for given in (topic, reason, since, until))
    if any(part is not None for part in place):
        if None in place or has_filter:
            fail("give either TOPIC PARTITION OFFSET, or filters such as --topic and --reason", code=2)
        return QuarantineFilter(*place)
    if not has_filter:
        fail("give TOPIC PARTITION OFFSET, or a filter: --topic, --reason, --since, --until", code=2)
    asked = parse_options(topic=topic, since=since, until=until)
    return QuarantineFilter(topic, reason=_glob(reason), since_ms=asked.since_ms, until_ms=asked.until_ms)


def _glob(reason: str | None) -> str | None:
    """Return the reason as a glob; a code alone matches all its fields. Leaves with 2 for an invalid length."""
    if reason is not None and not 0 < len(reason.strip()) <= MOST_REASON:
        fail(f"--reason {reason[:50]!r}: give 1 to {MOST_REASON} characters", code=2)
    return reason if reason is None or ":" in reason or is_glob(reason) else f"{reason}*"


def _read(warehouse: Location, wanted: QuarantineFilter, most: int) -> list[dict[str, Any]]:
    """Return the newest matching messages. Leaves with 1 where the tables cannot be read."""
    try:
        return read_quarantined(open_quarantine(warehouse), wanted, most)
    except WarehouseError as error:
        fail(str(error))


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _prepare(rows: Sequence[Mapping[str, Any]], sets: Mapping[str, Any]) -> list[Ready]:
    """Return the messages to publish; print them, and why others are left out."""
    now_ms = wall_ms()
    ready: list[Ready] = []
    left = Counter[str]()
    for row in rows:
        message, reason = prepare(row, sets, now_ms)
        if message is None:
            left[reason] += 1
        else:
            ready.append(message)
    if ready:
        layout: Layout = {
            "message": lambda row: place_text(row["row"]),
            "event time": lambda row: time_text(row["event"].event_time_ms),
        }
        print_table([vars(message) for message in ready[:SHOWN]], layout)
    if len(ready) > SHOWN:
        say(f"… and {len(ready) - SHOWN:,} more")
    for reason, number in left.most_common(SHOWN):
        say(f"{number:,} left out, {reason}")
    return ready


def _publish(settings: Settings, ready: Sequence[Ready], owner: str) -> None:
    """Publish the messages and print their number. Raises PublishError."""
    published = 0
    try:
        with VisibleConsole(stderr=True).status("publishing"):
            for confirmed in publish_again(settings, ready, owner):
                published += confirmed
    finally:
        say(f"{published:,} published.")


def _print_message(row: Mapping[str, Any]) -> None:
    """Print the message, its state, and why it was rejected."""
    say(f"{place_text(row)}, {both_times(to_ms(row['ingest_time']))}, {row['state']}")
    say(f"rejected for: {'; '.join(row['reasons'])}")
    _, reasons = validate(row["topic"], row["raw"], wall_ms())
    takes = "accepts it"
    if any(reason.startswith("unknown_queue") for reason in row["reasons"]):
        takes += "; it was rejected by its topic's route at the time"
    say(f"today's contract: {'rejects it for ' + '; '.join(reasons) if reasons else takes}")
    if row["state"] == REPLAYED:
        say(f"replayed as {row['topic']}-{row['replayed_partition']}@{row['replayed_offset']}")
    say(_content(row["raw"]))


def _content(value: bytes | None) -> str:
    if value is None:
        return "no value"
    try:
        text = visible(json.dumps(json.loads(value.decode()), indent=2, ensure_ascii=False))
    except (ValueError, RecursionError):
        left = len(value) - MOST_HEX_BYTES
        rest = f"\n… and {left:,} bytes more; --raw prints all" if left > 0 else ""
        return f"{len(value):,} bytes, not JSON:\n{_hex(value[:MOST_HEX_BYTES])}{rest}"
    left = len(text) - MOST_CHARACTERS
    return text if left <= 0 else f"{text[:MOST_CHARACTERS]}\n… and {left:,} characters more; --raw prints all"


def _hex(value: bytes) -> str:
    """Return lines of offset, sixteen bytes, and their ASCII characters."""
    lines = []
    for start in range(0, len(value), 16):
        part = value[start : start + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<47}  {letters}")
    return "\n".join(lines)
