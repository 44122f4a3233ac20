"""Quarantined messages: read with their state, changed by `--set`, validated by today's contract, and published again.

A replay is at least once: it publishes a message, waits for Kafka's confirmation, and then records it in the table
`repairs`. A replay that ends in between leaves the message WAITING, and the next one publishes it again.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from conf.location import Location
from conf.settings import Settings
from schemas.contract import MAX_BYTES, MAX_DEPTH
from schemas.decode import decode
from schemas.events import EVENTS, ROUTES, key_of
from schemas.tables import QUARANTINE, REPAIRS
from streaming.history.table_question import read_newest
from streaming.kafka_io.publisher import Publisher
from streaming.store.store import History
from streaming.text.result import Found, records_of
from streaming.text.times import to_ms, wall_ms
from streaming.warehouse.appender import Appender
from streaming.warehouse.rows import arrow_table
from streaming.warehouse.tables import open_table, table_path

WAITING, REPLAYED = "WAITING", "REPLAYED"
STATES = (WAITING, REPLAYED)
"""State of a message: not published again, or published again."""

AT_A_TIME = 1_000
"""Messages between two entries in the table; a replay that ends early repeats at most these."""

ROUTE_MS = 60_000
"""Maximum age of a route that is published again: Kafka would keep an older one as the newest of its key."""

_STEP = re.compile(r"[^.\[\]]+|\[\d{1,6}\]")
_PATH = re.compile(r"[^.\[\]]+(?:\[\d{1,6}\])*(?:\.[^.\[\]]+(?:\[\d{1,6}\])*)*", re.ASCII)

_FOUND = """
WITH replays AS (
    SELECT topic, "partition", "offset", ingest_time, max(replayed_partition) AS replayed_partition,
        max(replayed_offset) AS replayed_offset
    FROM repairs WHERE action = 'REPLAYED' AND ($at_ms IS NULL OR epoch_ms(changed_at) <= $at_ms)
    GROUP BY topic, "partition", "offset", ingest_time
), found AS (
    SELECT q.topic, q."partition", q."offset", q.ingest_time, if(r.topic IS NULL, 'WAITING', 'REPLAYED') AS state,
        q.reasons, coalesce(octet_length(q.raw), 0) AS bytes, r.replayed_partition, r.replayed_offset, q.raw
    FROM quarantine q LEFT JOIN replays r
        ON q.topic = r.topic AND q."partition" = r."partition" AND q."offset" = r."offset"
            AND q.ingest_time = r.ingest_time
    WHERE ($topic IS NULL OR q.topic = $topic OR q.topic GLOB $topic)
        AND ($partition IS NULL OR q."partition" = $partition)
        AND ($offset IS NULL OR q."offset" = $offset)
        AND ($at_ms IS NULL OR epoch_ms(q.ingest_time) <= $at_ms)
        AND ($since_ms IS NULL OR epoch_ms(q.ingest_time) >= $since_ms)
        AND ($until_ms IS NULL OR epoch_ms(q.ingest_time) <= $until_ms)
        AND ($reason IS NULL OR len(list_filter(q.reasons, lambda said: said = $reason OR said GLOB $reason)) > 0)
)
SELECT {columns} FROM found WHERE len($states) = 0 OR list_contains($states, state)
"""
"""A message is a place and a time, because offsets restart in a recreated topic."""

ORDER = ("ingest_time", "topic", "partition", "offset")


class ChangeError(ValueError):
    """The change is impossible. The message says what to do instead."""


@dataclass(frozen=True)
class QuarantineFilter:
    """None means any. `topic` and `reason` are globs, times are epoch ms of Kafka timestamps, `states` are of STATES.

    With `at_ms` messages and states are those of that time.
    """

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    reason: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    states: list[str] = field(default_factory=list)
    at_ms: int | None = None


def open_quarantine(warehouse: Location) -> History:
    """Open the tables of messages and replays. Raises WarehouseError."""
    return History(warehouse, [QUARANTINE, REPAIRS])


def list_quarantined(history: History, wanted: QuarantineFilter, limit: int | None) -> Found:
    """Return the newest `limit` messages, oldest first, without their bytes. Raises WarehouseError."""
    return read_newest(history, _FOUND.format(columns="* EXCLUDE (raw)"), vars(wanted), ORDER, limit)


def read_quarantined(history: History, wanted: QuarantineFilter, most: int) -> list[dict[str, Any]]:
    """Return the newest `most` messages with their bytes, oldest first. Raises WarehouseError."""
    found = read_newest(history, _FOUND.format(columns="*"), vars(wanted), ORDER, most)
    return [row for batch in found.rows for row in records_of(batch)]


def place_text(row: Mapping[str, Any]) -> str:
    return f"{row['topic']}-{row['partition']}@{row['offset']}"


def validate(topic: str, value: bytes | None, now_ms: int) -> tuple[Any, list[str]]:
    """Return the event, or every reason for which today's contract rejects it."""
    if topic not in EVENTS:
        return None, [f"unknown topic: {topic}"]
    return decode(topic, value, now_ms)


def parse_sets(texts: Sequence[str]) -> dict[str, Any]:
    """Parse `field=value`; a value that is not JSON is text. Raises ChangeError."""
    found = {}
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals or not path.strip():
            raise ChangeError(f"--set {text[:100]!r}: give FIELD=VALUE, such as queue_id=3")
        try:
            found[path.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            found[path.strip()] = value
    return found


def set_fields(raw: bytes | None, sets: Mapping[str, Any]) -> bytes | None:
    """Return the message with these fields; `a.b` is in an object, `a[0]` in a list. Raises ChangeError."""
    if not sets:
        return raw
    try:
        event = json.loads(raw.decode()) if raw is not None and len(raw) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise ChangeError("the message is not a JSON object, so it has no fields to set")
    for path, value in sets.items():
        container, key = _find(event, path)
        if isinstance(container, list) and key == len(container):
            container.append(value)
        else:
            container[key] = value
    try:
        return msgspec.json.encode(event)
    except (TypeError, ValueError, UnicodeEncodeError, RecursionError) as error:
        raise ChangeError(f"the changed event cannot be written as JSON: {error}") from None


def _find(event: dict[str, Any], path: str) -> tuple[Any, Any]:
    """Return the container that has the path's last key, and the key."""
    steps = _STEP.findall(path)
    if len(steps) > MAX_DEPTH or len(path) > 1_000 or not _PATH.fullmatch(path):
        raise ChangeError(f"field {path[:100]!r} is invalid; write a, a.b or a[0].b")
    *keys, last = [int(step[1:-1]) if step.startswith("[") else step for step in steps]
    node: Any = event
    try:
        for key in keys:
            node = node[key]
    except (KeyError, IndexError, TypeError):
        node = None
    fits = isinstance(node, list) and isinstance(last, int) and last <= len(node)
    if not fits and not (isinstance(node, dict) and isinstance(last, str)):
        raise ChangeError(f"field {path[:100]!r} does not exist")
    return node, last


@dataclass(frozen=True)
class Ready:
    """A message that today's contract accepts: the quarantined row, the value to publish, and its event."""

    row: Mapping[str, Any]
    value: bytes
    event: Any


def prepare(row: Mapping[str, Any], sets: Mapping[str, Any], now_ms: int) -> tuple[Ready | None, str]:
    """Return the message to publish, or why it is left out."""
    if row["state"] == REPLAYED:
        return None, "already replayed"
    try:
        value = set_fields(row["raw"], sets)
    except ChangeError as error:
        return None, str(error)
    event, reasons = validate(row["topic"], value, now_ms)
    if reasons or value is None:
        return None, f"rejected by today's contract: {'; '.join(reasons)}"
    if row["topic"] == ROUTES and now_ms - event.event_time_ms > ROUTE_MS:
        return None, "too old: a newer route exists, and Kafka would keep this old one as the newest of its key"
    return Ready(row, value, event), ""


def replay(settings: Settings, messages: Sequence[Ready], owner: str) -> Iterator[int]:
    """Publish the messages, and yield after each part how many Kafka has. Raises PublishError."""
    with Publisher(settings.kafka) as publisher:
        for start in range(0, len(messages), AT_A_TIME):
            futures = []
            try:
                for message in messages[start : start + AT_A_TIME]:
                    key = key_of(message.row["topic"], msgspec.structs.asdict(message.event))
                    futures.append((message, publisher.publish_raw(message.row["topic"], key, message.value)))
                publisher.flush()
            finally:
                confirmed = [(message, future.value) for message, future in futures if future.succeeded()]
                _record(settings.paths.warehouse, confirmed, owner)
            yield len(confirmed)


def _record(warehouse: Location, confirmed: Sequence[tuple[Ready, Any]], owner: str) -> None:
    now_ms = wall_ms()
    rows = [
        {
            **{name: message.row[name] for name in ("topic", "partition", "offset")},
            "ingest_time": to_ms(message.row["ingest_time"]),
            "changed_at": now_ms,
            "action": REPLAYED,
            "value": message.value,
            "owner": owner,
            "replayed_partition": landed.partition,
            "replayed_offset": landed.offset,
        }
        for message, landed in confirmed
    ]
    if rows:
        path = table_path(warehouse, REPAIRS.name)
        Appender(path, open_table(warehouse, REPAIRS)).append(arrow_table(rows, REPAIRS, now_ms))
