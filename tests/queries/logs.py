"""Logs of the modelled cluster, the ways Kafka and Spark cut them, and rows that can be compared."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from tests.support.engine import messages_of, replay
from tests.support.tiers import in_proof

START = 1_700_000_000_000
SECOND, MINUTE = 1_000, 60_000

SCENARIOS = ("twins", "frozen_client", "slow_broker", "healthy", "reconnect")
SEEDS = (1, *in_proof([2, 3]))

Messages = Sequence[dict[str, Any]]
Rows = dict[str, list[dict[str, Any]]]


@cache
def log_of(scenario: str, seed: int, duration_ms: int = 10 * MINUTE) -> tuple[dict[str, Any], ...]:
    """The messages of one run."""
    return tuple(messages_of(Simulation(load_scenario(scenario), seed, START).events(duration_ms)))


def cut_as_spark_does(messages: Messages, limit: int) -> Iterator[list[dict[str, Any]]]:
    """Batches as KafkaMicroBatchStream.rateLimit makes them of a backlog.

    Each partition gives its prorated share of maxOffsetsPerTrigger, rounded down, yet one offset at least: small
    partitions run ahead of large ones, or stay behind, in event time.
    """
    backlog: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for message in messages:
        backlog[message["topic"], message["partition"]].append(message)
    while total := sum(map(len, backlog.values())):
        batch = []
        for place, rest in backlog.items():
            prorated = limit * len(rest) / total
            taken = len(rest) if total <= limit else math.ceil(prorated) if prorated < 1 else math.floor(prorated)
            batch += rest[:taken]
            backlog[place] = rest[taken:]
        yield batch


def comparable(rows: Rows) -> dict[str, list[str]]:
    """Rows by table, whatever their order; tables without rows left out."""
    return {
        table: sorted(json.dumps(row, sort_keys=True, default=repr) for row in of_table)
        for table, of_table in rows.items()
        if of_table and table not in ("clock_needed", "clock_heard")  # said once a batch
    }


def renumbered(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same messages with fresh offsets, in the order given."""
    offsets: dict[tuple[str, int], int] = defaultdict(int)
    rows = []
    for message in messages:
        place = (message["topic"], message["partition"])
        rows.append({**message, "offset": offsets[place]})
        offsets[place] += 1
    return rows


def changed(message: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The message with other values in its event; None takes the field out."""
    event = {**json.loads(message["value"]), **fields}
    event = {name: value for name, value in event.items() if value is not None}
    return {**message, "value": json.dumps(event).encode(), "ingest_time_ms": event["event_time_ms"]}


def event_of(message: dict[str, Any]) -> Any:
    return json.loads(message["value"])


def alerts(rows: Rows, kind: str | None = None) -> list[dict[str, Any]]:
    """Rows of alerts that fired and that are over, in the order they were written, of one kind if it is given."""
    steps = ("FIRING", "RESOLVED")
    fired = (row for row in rows.get("alerts", []) if row["fired_at"] is not None and row["state"] in steps)
    return [row for row in fired if kind in (None, row["kind"])]


@cache
def one_batch(scenario: str, seed: int) -> Rows:
    return replay([log_of(scenario, seed)])


@cache
def expected(scenario: str, seed: int) -> dict[str, list[str]]:
    """What every other cut of the log must give, too."""
    return comparable(one_batch(scenario, seed))
