"""`balancewatch quarantine`: list, show and replay messages that broke their contract.

A replay changes messages by `--set`, validates them by today's contract, and publishes them again. It is at least once:
it publishes a message, waits for Kafka's confirmation, and then records it in the table `repairs`. A replay that ends
in between leaves the message WAITING, and the next one publishes it again.
"""

import getpass
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import msgspec
import typer

from conf.location import Location
from conf.settings import Settings
from schemas.contract import MAX_BYTES
from schemas.decode import decode
from schemas.events import EVENTS, ROUTES, key_of
from schemas.tables import QUARANTINE, REPAIRS
from streaming.history.query_options import GLOB, QueryOptions, Since, Until, parse_options
from streaming.history.questions import name_option
from streaming.history.table_question import Named, Question, command_of, equals, open_history, select
from streaming.kafka_io.publisher import Publisher
from streaming.terminal.command import fail, load, needs_kafka, run_or_exit
from streaming.terminal.format_option import is_terminal
from streaming.terminal.printing import Layout, print_table, time_columns
from streaming.terminal.setting_options import BootstrapServers, Warehouse
from streaming.text.console import VisibleConsole
from streaming.text.output import bytes_out, say
from streaming.text.result import records_of
from streaming.text.times import both_times, time_text, to_ms, wall_ms
from streaming.warehouse.appender import Appender
from streaming.warehouse.rows import arrow_table
from streaming.warehouse.tables import open_table, table_path
from streaming.warehouse.warehouse_error import WarehouseError

Row = Mapping[str, Any]

WAITING, REPLAYED = "WAITING", "REPLAYED"
STATES = (WAITING, REPLAYED)
"""State of a message: not published again, or published again."""

AT_A_TIME = 1_000
"""Messages between two entries in the table; a replay that ends early repeats at most these."""

ROUTE_MS = 60_000
"""Maximum age of a route that is published again: Kafka would keep an older one as the newest of its key."""

_STEP = re.compile(r"[^.\[\]]+|\[\d{1,6}\]")
_PATH = re.compile(r"[^.\[\]]+(\.[^.\[\]]+|\[\d{1,6}\])*", re.ASCII)


def place_text(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}@{row['offset']}"


def validate(topic: str, value: bytes | None, now_ms: int) -> tuple[Any, list[str]]:
    """Return the event, or every reason for which today's contract rejects it."""
    if topic not in EVENTS:
        return None, [f"unknown topic: {topic}"]
    return decode(topic, value, now_ms)


def parse_sets(texts: Sequence[str]) -> dict[str, Any]:
    """Parse `field=value`; a value that is not JSON is text. Raises ValueError."""
    found = {}
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals or not path.strip():
            raise ValueError(f"--set {text[:100]!r}: give FIELD=VALUE, such as queue_id=3")
        try:
            found[path.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            found[path.strip()] = value
    return found


def set_fields(raw: bytes | None, sets: Mapping[str, Any]) -> bytes | None:
    """Return the message with these fields; `a.b` is in an object, `a[0]` in a list. Raises ValueError."""
    if not sets:
        return raw
    try:
        event = json.loads(raw.decode()) if raw is not None and len(raw) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise ValueError("the message is not a JSON object, so it has no fields to set")
    for path, value in sets.items():
        container, key = _find(event, path)
        if isinstance(container, list) and key == len(container):
            container.append(value)
        else:
            container[key] = value
    try:
        return msgspec.json.encode(event)
    except (TypeError, ValueError, UnicodeEncodeError, RecursionError) as error:
        raise ValueError(f"the changed event cannot be written as JSON: {error}") from None


def _find(event: dict[str, Any], path: str) -> tuple[Any, Any]:
    """Return the container that has the path's last key, and the key."""
    if not _PATH.fullmatch(path):
        raise ValueError(f"field {path[:100]!r} is invalid; write a, a.b or a[0].b")
    *keys, last = [int(step[1:-1]) if step.startswith("[") else step for step in _STEP.findall(path)]
    node: Any = event
    try:
        for key in keys:
            node = node[key]
    except (KeyError, IndexError, TypeError):
        node = None
    fits = isinstance(node, list) and isinstance(last, int) and last <= len(node)
    if not fits and not (isinstance(node, dict) and isinstance(last, str)):
        raise ValueError(f"field {path[:100]!r} does not exist")
    return node, last


def prepare(row: Row, sets: Mapping[str, Any], now_ms: int) -> tuple[Row | None, str]:
    """Return the quarantined row with the `key` and `value` to publish, or why it is left out."""
    if row["state"] == REPLAYED:
        return None, "already replayed"
    try:
        value = set_fields(row["raw"], sets)
    except ValueError as error:
        return None, str(error)
    event, reasons = validate(row["topic"], value, now_ms)
    if reasons or value is None:
        return None, f"rejected by today's contract: {'; '.join(reasons)}"
    if row["topic"] == ROUTES and now_ms - event.event_time_ms > ROUTE_MS:
        return None, "too old: a newer route exists, and Kafka would keep this old one as the newest of its key"
    key = key_of(row["topic"], msgspec.structs.asdict(event))
    return {**row, "key": key, "value": value, "event_time_ms": event.event_time_ms}, ""


def publish_again(settings: Settings, messages: Sequence[Row], owner: str) -> None:
    """Publish the messages, and print how many Kafka has. Raises PublishError."""
    published = 0
    try:
        with VisibleConsole(stderr=True).status("publishing"), Publisher(settings.kafka) as publisher:
            for start in range(0, len(messages), AT_A_TIME):
                futures = []
                try:
                    for message in messages[start : start + AT_A_TIME]:
                        future = publisher.publish_raw(message["topic"], message["key"], message["value"])
                        futures.append((message, future))
                    publisher.flush()
                finally:
                    confirmed = [(message, future.value) for message, future in futures if future.succeeded()]
                    _record(settings.paths.warehouse, confirmed, owner)
                    published += len(confirmed)
    finally:
        say(f"{published:,} published.")


def _record(warehouse: Location, confirmed: Sequence[tuple[Row, Any]], owner: str) -> None:
    now_ms = wall_ms()
    rows = [
        {
            **{name: message[name] for name in ("topic", "partition", "offset", "value")},
            "ingest_time": to_ms(message["ingest_time"]),
            "changed_at": now_ms,
            "action": REPLAYED,
            "owner": owner,
            "replayed_partition": landed.partition,
            "replayed_offset": landed.offset,
        }
        for message, landed in confirmed
    ]
    if rows:
        path = table_path(warehouse, REPAIRS.name)
        Appender(path, open_table(warehouse, REPAIRS)).append(arrow_table(rows, REPAIRS, now_ms))


MOST_OWNER = 255
MOST_AT_ONCE = 100_000
SHOWN = 20
"""Messages listed by a replay; the others are counted."""

MOST_CHARACTERS = 20_000

TOPIC = typer.Argument(help="Kafka topic.", metavar="TOPIC")
PARTITION = typer.Argument(help="Partition.", min=0, metavar="PARTITION")
OFFSET = typer.Argument(help="Offset of the message.", min=0, metavar="OFFSET")


Topic = Annotated[str | None, name_option("Only this Kafka topic, or a glob.", values=tuple(EVENTS))]
State = Annotated[
    str | None, typer.Option(help=f"Only these states, with commas: {', '.join(STATES)}.", metavar="STATE")
]
Reason = Annotated[
    str | None,
    typer.Option(
        help="Only with this reason: missing_field, 'wrong_type: queue_id' or a glob such as 'not_*'.", metavar=GLOB
    ),
]
LAYOUT: Layout = {
    **time_columns("ingest_time"),
    "message": place_text,
    "reasons": lambda row: "\n".join(row["reasons"][:5]) + ("\n…" if len(row["reasons"]) > 5 else ""),
    "bytes": lambda row: f"{row['bytes']:,}",
    "state": lambda row: row["state"],
}

_MESSAGES = """
SELECT q.topic, q."partition", q."offset", q.ingest_time, if(r.action IS NULL, 'WAITING', 'REPLAYED') AS state,
    q.reasons, coalesce(octet_length(q.raw), 0) AS bytes, r.replayed_partition, r.replayed_offset, q.batch_id{raw}
FROM {rows} AS q LEFT JOIN {repairs} AS r ON q.topic = r.topic AND q."partition" = r."partition"
    AND q."offset" = r."offset" AND q.ingest_time = r.ingest_time
"""

QUARANTINED = Question(
    table=QUARANTINE,
    help="""List, show and replay messages that broke their contract.

    States: WAITING (not published again) and REPLAYED (published again). --current lists WAITING messages.

    Times are Kafka timestamps. --at lists messages by their state at that time. There are no options for cluster, group
    and broker, because an invalid message can lack them.

    Example: balancewatch quarantine --current

    Example: balancewatch quarantine --topic rocketmq.pulls --reason 'wrong_type*' --since 2h --format json
    """,
    names={
        "state": Named(State, equals("state"), STATES, of_current=(WAITING,)),
        "topic": Named(Topic, equals("topic")),
        "reason": Named(
            Reason,  # itself, a code with any field, or a glob
            lambda _: (
                "len(list_filter(reasons, lambda said: said = $reason OR said GLOB $reason "
                "OR starts_with(said, concat($reason, ':')))) > 0"
            ),
        ),
    },
    wrap=_MESSAGES.replace("{raw}", ""),
    beside=(REPAIRS,),
    show=lambda rows: print_table(rows, LAYOUT),
    nothing="No quarantined message matches.",
    has_commands=True,
)

quarantine = typer.Typer(invoke_without_command=True, add_completion=False, rich_markup_mode=None)
quarantine.callback()(command_of(QUARANTINED))


def read_quarantined(options: QueryOptions, condition: str = "true") -> list[dict[str, Any]]:
    """Return the messages that meet the options and a condition in SQL, with their bytes, oldest first.

    Leaves with 1 for unreadable tables.
    """
    question = replace(QUARANTINED, wrap=f"{_MESSAGES.replace('{raw}', ', q.raw')} WHERE {condition}")
    try:
        found = select(open_history(options, QUARANTINE, REPAIRS), question, options)
        return [row for batch in found.rows for row in records_of(batch)]
    except WarehouseError as error:
        fail(str(error))


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
    options = parse_options(topic=topic, limit=1, warehouse=warehouse)
    rows = read_quarantined(*_at_place(options, topic, partition, offset))
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
    place, filters = (topic_, partition, offset), (topic, reason, since, until)
    is_place, is_filter = (any(part is not None for part in parts) for parts in (place, filters))
    if is_place and (None in place or is_filter):
        fail("give either TOPIC PARTITION OFFSET, or filters such as --topic and --reason", code=2)
    if not is_place and not is_filter:
        fail("give TOPIC PARTITION OFFSET, or a filter: --topic, --reason, --since, --until", code=2)
    options = parse_options(
        topic=topic_ if is_place else topic,
        reason=reason,
        since=since,
        until=until,
        limit=MOST_AT_ONCE + 1,
        warehouse=warehouse,
    )
    if owner is not None and not 0 < len(owner.strip()) <= MOST_OWNER:
        fail(f"--owner {owner[:50]!r}: give 1 to {MOST_OWNER} characters", code=2)
    try:
        sets = parse_sets(set_ or ())
    except ValueError as error:
        fail(str(error), code=2)
    rows = read_quarantined(*_at_place(options, *place)) if is_place else read_quarantined(options)
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
    run_or_exit(lambda: publish_again(settings, ready, owner or _user_name()))


def _at_place(
    options: QueryOptions, topic: str | None, partition: int | None, offset: int | None
) -> tuple[QueryOptions, str]:
    """Return the options and the condition of one message, whose topic is no glob."""
    return replace(options, names={"topic": (str(topic),)}), f'q."partition" = {partition} AND q."offset" = {offset}'


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _prepare(rows: Sequence[Row], sets: Mapping[str, Any]) -> list[Row]:
    """Return the messages to publish; print them, and why others are left out."""
    now_ms = wall_ms()
    ready: list[Row] = []
    left = Counter[str]()
    for row in rows:
        message, reason = prepare(row, sets, now_ms)
        if message is None:
            left[reason] += 1
        else:
            ready.append(message)
    if ready:
        layout: Layout = {"message": place_text, "event time": lambda row: time_text(row["event_time_ms"])}
        print_table(ready[:SHOWN], layout)
    if len(ready) > SHOWN:
        say(f"… and {len(ready) - SHOWN:,} more")
    for reason, number in left.most_common(SHOWN):
        say(f"{number:,} left out, {reason}")
    return ready


def _print_message(row: Row) -> None:
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
    """Return JSON with indents, other bytes as text, in which those that are no UTF-8 are escaped."""
    if value is None:
        return "no value"
    try:
        text = json.dumps(json.loads(value.decode()), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = f"{len(value):,} bytes, not JSON:\n{value.decode('utf-8', 'backslashreplace')}"
    left = len(text) - MOST_CHARACTERS
    return text if left <= 0 else f"{text[:MOST_CHARACTERS]}\n… and {left:,} characters more; --raw prints all"
