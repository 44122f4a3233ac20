"""The events of a session, kept beside its plays: today's rules work through them again, without playing."""

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from conf.settings import Settings
from streaming.queries.rulebook import rulebook
from streaming.replay.replay_command import AT_MOST, read_kafka
from streaming.replay.stream import Message, Stream
from udfs.alerts.rulebook import CANARY_CLUSTER

EVENTS_FILE = "events.jsonl.gz"
RULES_FILE = "rules.toml"
"""Present where the session's clocks were faster than production's."""


def read_events(bootstrap_servers: str) -> Iterator[list[Message]]:
    """All that Kafka holds of the five topics, in the order that it took them."""
    yield from read_kafka(Settings.load(kafka={"bootstrap_servers": bootstrap_servers}).kafka, 0, 2**53)


def keep_events(folder: Path, slices: Iterable[list[Message]]) -> int:
    """Write every message to EVENTS_FILE, a line each; return how many there are."""
    kept = 0
    with gzip.open(folder / EVENTS_FILE, "wt", compresslevel=3) as file:
        for part in slices:
            for message in part:
                file.write(json.dumps({**message, "value": message["value"].decode(errors="replace")}) + "\n")
                kept += 1
    return kept


def replayed_rows(folder: Path) -> list[dict[str, Any]]:
    """The alert rows that today's rules make of the kept events, by time, the canary's left out.

    Raises FileNotFoundError where the session kept no events.
    """
    own = folder / RULES_FILE
    stream = Stream(rulebook(Settings.load(rules={"file": str(own)} if own.exists() else {})))
    rows = [row for part in _slices(_messages(folder)) for row in stream.work_through(part).get("alerts", [])]
    return sorted((row for row in rows if row["cluster"] != CANARY_CLUSTER), key=lambda row: row["changed_at"])


def _messages(folder: Path) -> Iterator[Message]:
    with gzip.open(folder / EVENTS_FILE, "rt") as file:
        for line in file:
            message = json.loads(line)
            yield {**message, "value": message["value"].encode()}


def _slices(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """A slice ends only between two ingest times."""
    part: list[Message] = []
    for message in messages:
        if len(part) >= AT_MOST and message["ingest_time_ms"] > part[-1]["ingest_time_ms"]:
            yield part
            part = []
        part.append(message)
    if part:
        yield part
