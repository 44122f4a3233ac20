"""`balancewatch replay`: recorded events by the query's code under other rules, and the pages it would send.

Events come in the order of arrival, in slices: from Kafka by time, or from a file of JSON lines. Kafka's partitions are
merged by record timestamp, so a clock event never overtakes an earlier event. A slice ends between two timestamps, and
is as long as a micro-batch of `run`: a late event must not change verdicts from before its arrival.
"""

import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import typer
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from rich.status import Status
from rich.text import Text

from conf.location import Location
from conf.settings import Kafka
from schemas.events import EVENTS
from schemas.tables import ALERT_DELIVERIES, ALERTS
from streaming.history.query_options import TIME, moment
from streaming.kafka_io.consumer import open_consumer, read_spans
from streaming.kafka_io.topics import KafkaUnreachableError
from streaming.queries.rulebook import rulebook
from streaming.replay.stream import Enveloper, Event, Message, Stream
from streaming.store.alerts import present_alert
from streaming.system.known_error import BalancewatchError
from streaming.terminal.command import fail, load, needs_kafka
from streaming.terminal.format_option import format_option
from streaming.terminal.printing import print_rows, print_table, show_alerts
from streaming.terminal.setting_options import BootstrapServers, Warehouse
from streaming.text.console import VisibleConsole
from streaming.text.output import note, say, write_csv, write_json
from streaming.text.times import iso, time_text, to_ms, wall_ms
from streaming.warehouse.readable_rows import open_written, read_files, read_table
from streaming.warehouse.warehouse_error import NotWrittenError, WarehouseError
from udfs.alerts.kinds import KIND_FACTS
from udfs.alerts.rulebook import CANARY_CLUSTER, Rulebook

Item = TypeVar("Item")

AT_MOST, SPAN_MS = 10_000, 5_000
"""Messages of a slice, plus those with the timestamp of its last one, and the time between its first and last."""

PATIENCE_SECONDS = 30.0

LONGEST_LINE = 16 << 20


class RecordedError(BalancewatchError):
    """The events cannot be read. The message says where reading failed."""


def read_kafka(kafka: Kafka, from_ms: int, to_ms: int) -> Iterator[list[Message]]:
    """Yield the messages of the five topics with record timestamps in [from, to).

    Raises KafkaUnreachableError, or RecordedError where Kafka stops answering.
    """
    with ExitStack() as consumers:
        try:
            asking = consumers.enter_context(closing(open_consumer(kafka)))
            spans = {TopicPartition(*place): span for place, span in read_spans(asking, EVENTS).items()}
            if not spans:
                raise RecordedError("Kafka has none of the topics rocketmq.*; does `collect` run?")
            begins = asking.offsets_for_times(dict.fromkeys(spans, from_ms))
            partitions = []
            for place, span in spans.items():
                if (found := begins.get(place)) and found.offset < span.end:
                    consumer = consumers.enter_context(closing(open_consumer(kafka)))
                    partitions.append(_read_partition(consumer, place, found.offset, span.end, to_ms))
        except KafkaError as error:
            raise KafkaUnreachableError(
                f"kafka.bootstrap_servers = {kafka.bootstrap_servers!r}: no broker answers ({type(error).__name__})"
            ) from None
        try:
            yield from slices_of(merge(*partitions, key=itemgetter(0)))
        except KafkaError as error:
            raise RecordedError(f"reading events from Kafka failed: {type(error).__name__}: {error}") from None


def _read_partition(
    consumer: KafkaConsumer, place: TopicPartition, begin: int, end: int, to_ms: int
) -> Iterator[tuple[int, Message]]:
    """Yield a partition's messages with their timestamps, which never decrease.

    Each has its own consumer, so that none is fetched faster than it is merged.
    """
    consumer.assign([place])
    consumer.seek(place, begin)
    newest_ms, deadline = 0, time.monotonic() + PATIENCE_SECONDS
    while consumer.position(place) < end:
        for record in consumer.poll(timeout_ms=500).get(place, ()):
            if record.offset >= end or record.timestamp >= to_ms:
                return
            newest_ms = max(newest_ms, record.timestamp)
            where = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
            yield newest_ms, {**where, "ingest_time_ms": record.timestamp, "value": record.value}
            deadline = time.monotonic() + PATIENCE_SECONDS
        if time.monotonic() > deadline:
            raise RecordedError(
                f"Kafka returned no message of {place.topic}, partition {place.partition}, for "
                f"{PATIENCE_SECONDS:g} s, although it has some up to offset {end}"
            )


def slices_of(messages: Iterable[tuple[int, Item]]) -> Iterator[list[Item]]:
    """Yield the messages, given with their times, in slices."""
    part: list[Item] = []
    first_ms = last_ms = 0
    for time_ms, message in messages:
        if part and time_ms > last_ms and (len(part) >= AT_MOST or time_ms > first_ms + SPAN_MS):
            yield part
            part = []
        if not part:
            first_ms = time_ms
        part.append(message)
        last_ms = time_ms
    yield part


def read_events(path: Path) -> Iterator[list[Message]]:
    """Yield the events of a file, a line each: `{"topic": ..., "event": {...}}`, in the order of their times.

    Raises RecordedError with the number of the first invalid line.
    """
    enveloper = Enveloper()
    yield from map(
        enveloper.messages, slices_of((event["event_time_ms"], (topic, event)) for topic, event in _lines(path))
    )


def last_event_ms(path: Path) -> int:
    """Return the latest event time of a file, 0 without events. Raises RecordedError as `read_events`."""
    return max((event["event_time_ms"] for _, event in _lines(path)), default=0)


def _lines(path: Path) -> Iterator[Event]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), 1):
                try:
                    record = json.loads(line)
                    topic, event = record["topic"], record["event"]
                    is_event = topic in EVENTS and isinstance(event["event_time_ms"], int)
                except (ValueError, KeyError, TypeError):
                    is_event = False
                if not is_event:
                    raise RecordedError(
                        f'--events {path}: line {number} is not {{"topic": "rocketmq.pulls", "event": '
                        f'{{"event_time_ms": ...}}}} with one of the topics {", ".join(EVENTS)}'
                    )
                yield topic, event
    except OSError as error:
        raise RecordedError(f"--events {path}: {error.strerror}") from None


Row = dict[str, Any]
Pages = dict[str, Row]
"""Incident to its page: the row of the alerts table that paged first, with `ended_at`, None while it is open."""

COLUMNS = (
    "alert_id", "incident_id", "kind", "severity", "cluster", "consumer_group", "topic", "summary", "state",
    "inhibited_by", "started_at",
)  # fmt: skip
"""Columns of the alerts table that a page is made of; times are epoch ms of event time."""


def add_page(pages: Pages, row: Mapping[str, Any]) -> None:
    """Add the row, of which an incident's are oldest first, to the pages."""
    page = pages.get(row["incident_id"])
    if page is None and row["state"] == "FIRING" and row["inhibited_by"] is None and row["severity"] != "info":
        pages[row["incident_id"]] = {**row, "ended_at": None}
    elif page is not None and row["state"] == "RESOLVED":
        page["ended_at"] = row["changed_at"]


def in_order(pages: Pages) -> list[Row]:
    return sorted(pages.values(), key=itemgetter("changed_at", "incident_id"))


def overlap(page: Row, other: Row) -> bool:
    """Return whether both are about the same subject at overlapping times."""
    spans = [(one["started_at"], math.inf if one["ended_at"] is None else one["ended_at"]) for one in (page, other)]
    return bool(page["alert_id"] == other["alert_id"] and max(spans)[0] <= min(end for _, end in spans))


@dataclass(frozen=True)
class Asked:
    """The span [from, to) in epoch ms, and a filter on alerts; None means all."""

    from_ms: int
    to_ms: int
    cluster: str | None = None
    consumer_group: str | None = None

    def is_for(self, row: Mapping[str, Any]) -> bool:
        if self.cluster is None and row["cluster"] == CANARY_CLUSTER:
            return False
        return self.cluster in (None, row["cluster"]) and self.consumer_group in (None, row["consumer_group"])


def read_pages(warehouse: Location, asked: Asked) -> list[Row]:
    """Return the pages sent until the end of the span, from alerts and the delivery log. Raises NotWrittenError.

    The relay's alerts about its receivers are no pages, and neither is an incident that the log has as not notified
    (silence, limit, no route). Damaged files are skipped, which DuckDB cannot.
    """

    def read(row: Mapping[str, Any]) -> Row:
        return {**row, **{name: to_ms(row[name]) for name in ("started_at", "changed_at")}}

    of_rules = pc.field("kind").isin(sorted(KIND_FACTS))
    pages: Pages = {}
    for row in read_table(warehouse, ALERTS, of_rules, (*COLUMNS, "changed_at", "batch_id"), read=read):
        if row["changed_at"] < asked.to_ms and asked.is_for(row):
            add_page(pages, row)
    unreported = _read_unreported(warehouse)
    return [page for page in in_order(pages) if page["incident_id"] not in unreported]


def _read_unreported(warehouse: Location) -> set[str]:
    """Return the incidents of the delivery log that no receiver was notified of."""
    try:
        table = open_written(warehouse, ALERT_DELIVERIES)
    except NotWrittenError:
        return set()
    rows = read_files(ALERT_DELIVERIES, table, ("incident_id", "outcome"))
    is_notified = pc.is_in(rows["outcome"], pa.array(["PENDING", "DELIVERED", "RETRYING", "REFUSED"]))
    return set(rows["incident_id"].to_pylist()) - set(rows.filter(is_notified)["incident_id"].to_pylist())


def compare(replayed: Sequence[Row], sent: Sequence[Row], from_ms: int, to_ms_: int) -> list[Row]:
    """Return the pages of [from, to), oldest first, each with its `outcome`, `replayed_at` and `sent_at`.

    Pages of overlapping incidents are the same: replayed under the rules under test, sent under those in force then.
    """
    outcomes, left = [], list(sent)
    for page in replayed:
        match = next((other for other in left if overlap(other, page)), None)
        if match is not None:
            left.remove(match)
        times = {"replayed_at": page["changed_at"], "sent_at": match and match["changed_at"]}
        outcomes.append({**page, "outcome": "new" if match is None else "same", **times})
    outcomes += [{**page, "outcome": "gone", "replayed_at": None, "sent_at": page["changed_at"]} for page in left]
    listed = [
        one
        for one in outcomes
        if any(at_ms is not None and from_ms <= at_ms < to_ms_ for at_ms in (one["replayed_at"], one["sent_at"]))
    ]
    return sorted(listed, key=itemgetter("changed_at", "incident_id"))


def count(outcomes: Iterable[Row]) -> dict[str, int]:
    counts = Counter(one["outcome"] for one in outcomes)
    return {name: counts[name] for name in MEANINGS}


MEANINGS = {"same": "sent, unchanged", "new": "was not sent", "gone": "was sent, would not be"}
STYLES = {"new": "bold red", "gone": "yellow", "same": "green"}

WARM_UP_MS = 900_000
"""Length of the warm-up before the span. Heartbeats and routes come every 30 s, and the second longest hold, a client's
expired pulls and the settling after them, takes 4 minutes."""

MOST_TRANSITIONS = 100_000


@dataclass
class Replayed:
    """The result. `transitions` are the alert rows of the span, `messages` the number of events with the warm-up."""

    pages: list[Row] = field(default_factory=list)
    transitions: list[Row] = field(default_factory=list)
    messages: int = 0
    first_ms: int | None = None


def work_through(slices: Iterable[list[Message]], rulebook: Rulebook, asked: Asked, language: str = "en") -> Replayed:
    """Process the slices. Memory holds a slice, the state, and the transitions of the span."""
    stream, replayed = Stream(rulebook, language), Replayed()
    pages: Pages = {}
    for messages in slices:
        if messages and replayed.first_ms is None:
            replayed.first_ms = messages[0]["ingest_time_ms"]
        replayed.messages += len(messages)
        alerts = stream.work_through(messages).get("alerts", [])
        for row in sorted(filter(asked.is_for, alerts), key=lambda row: row["changed_at"]):
            add_page(pages, row)
            if asked.from_ms <= row["changed_at"] < asked.to_ms and len(replayed.transitions) < MOST_TRANSITIONS:
                replayed.transitions.append(row)
    replayed.pages = in_order(pages)
    return replayed


def print_outcomes(outcomes: Sequence[Row], replayed: Replayed, asked: Asked, format_: str) -> None:
    """Print the result as table, json or csv; csv has only the pages. Times are ISO 8601."""
    pages = [
        {name: iso(row[name]) if name.endswith("_at") and row[name] is not None else row[name] for name in PRINTED}
        for row in outcomes
    ]
    since, until, counts = iso(asked.from_ms), iso(asked.to_ms), count(outcomes)
    if format_ == "json":
        write_json({"since": since, "until": until, "events": replayed.messages, "counts": counts, "pages": pages})
    elif format_ == "csv":
        write_csv(list(pages[0]) if pages else ["outcome"], pages)
    else:
        numbers = ", ".join(f"{number} {outcome}" for outcome, number in counts.items())
        say(f"{since} to {until}, {replayed.messages} events including warm-up: {numbers}.")
        if pages:
            print_table(pages, {"page": _head, "time and summary": _times_and_summary})


PRINTED = (
    "outcome", "kind", "severity", "cluster", "consumer_group", "topic", "alert_id", "replayed_at", "sent_at",
    "started_at", "summary",
)  # fmt: skip


def _head(row: Mapping[str, Any]) -> Text:
    outcome = Text(row["outcome"], style=STYLES[row["outcome"]])
    return Text("\n").join([outcome, Text(row["kind"]), Text(row["severity"])])


def _times_and_summary(row: Mapping[str, Any]) -> str:
    parts = [("replayed", row["replayed_at"]), ("sent", row["sent_at"])]
    times = ", ".join(f"{name} {at[:19].replace('T', ' ')} UTC" for name, at in parts if at)
    return f"{times} ({MEANINGS[row['outcome']]})\n{row['summary']}"


FILE = "FILE"


def replay(
    since: Annotated[
        str,
        typer.Option(
            help="List pages from this time: 2h (ago), 03:12 or ISO 8601; local time by default.", metavar=TIME
        ),
    ] = "1h",
    until: Annotated[
        str | None,
        typer.Option(help="List pages until this time. Default: now, or the file's last event.", metavar=TIME),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option("--rules", help="Rules file to try. Default: the rules in force [rules.file]", metavar=FILE),
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option("--events", help='Read JSON lines {"topic": ..., "event": {...}} instead of Kafka.', metavar=FILE),
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Only pages of this cluster.", metavar="NAME")] = None,
    group: Annotated[str | None, typer.Option(help="Only pages of this consumer group.", metavar="NAME")] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Print all transitions, including inhibited and info ones.")
    ] = False,
    format_: Annotated[str, format_option("table", "json", "csv")] = "table",
    bootstrap_servers: BootstrapServers = None,
    warehouse: Warehouse = None,
) -> None:
    """Backtest changed rules on recorded events: which pages would be new, unchanged or gone.

    The command sends and writes nothing. It reads 15 minutes before --since as a warm-up. Two pages about the same
    subject at overlapping times count as one. With --events, times such as 2h count back from the file's last event.

    Example: balancewatch replay --since 2h --rules stricter.toml

    Example: balancewatch replay --since 2026-11-21T03:00 --until 2026-11-21T04:00 --group billing --all

    Example: balancewatch replay --events night.jsonl --since 2026-11-21T00:00 --format json
    """
    settings = load(
        kafka={"bootstrap_servers": bootstrap_servers},
        paths={"warehouse": warehouse},
        rules={"file": None if rules is None else str(rules)},
    )
    try:
        now_ms = wall_ms() if events is None else last_event_ms(events) + 1
    except RecordedError as error:
        fail(str(error))
    until_ms = moment("--until", until, now_ms)
    asked = Asked(moment("--since", since, now_ms) or 0, now_ms if until_ms is None else until_ms, cluster, group)
    if asked.from_ms >= asked.to_ms:
        end = until or ("now" if events is None else f"the last event, {time_text(now_ms)}")
        fail(f"--since {since} is not before --until {end}", code=2)
    if events is None:
        needs_kafka(settings)
    try:
        notified, incomparable = read_pages(settings.paths.warehouse, asked), None
    except WarehouseError as error:
        notified, incomparable = [], f"no pages to compare with: {error}"
    try:
        slices = (
            read_kafka(settings.kafka, asked.from_ms - WARM_UP_MS, asked.to_ms)
            if events is None
            else read_events(events)
        )
        with VisibleConsole(stderr=True).status("replaying events") as status:
            slices = _showing_progress(slices, status, asked)
            replayed = work_through(slices, rulebook(settings), asked, settings.language)
    except (RecordedError, KafkaUnreachableError) as error:
        fail(str(error))
    if all_:
        print_rows([present_alert(row) for row in replayed.transitions], format_, "No alert matches.", show_alerts)
    else:
        outcomes = compare(replayed.pages, notified, asked.from_ms, asked.to_ms)
        print_outcomes(outcomes, replayed, asked, format_)
    for line in _notes(replayed, asked, incomparable):
        note(line)


def _showing_progress(slices: Iterable[list[Message]], status: Status, asked: Asked) -> Iterator[list[Message]]:
    """Yield the slices; the status shows how much of the time span is replayed."""
    begin_ms = asked.from_ms - WARM_UP_MS
    for part in slices:
        yield part
        if part:
            share = (part[-1]["ingest_time_ms"] - begin_ms) / (asked.to_ms - begin_ms)
            status.update(f"replaying events: {min(1.0, max(0.0, share)):.0%}")


def _notes(replayed: Replayed, asked: Asked, incomparable: str | None) -> Iterator[str]:
    if not replayed.messages:
        yield "no events between --since and --until"
    if replayed.first_ms is not None and replayed.first_ms > asked.from_ms:
        yield f"the first recorded event is from {time_text(replayed.first_ms)}, after --since"
    if len(replayed.transitions) >= MOST_TRANSITIONS:
        yield f"only the first {MOST_TRANSITIONS} transitions are listed; give a shorter span"
    if incomparable:
        yield incomparable
