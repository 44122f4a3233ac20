"""`make profile`: where the Python of one batch goes, without Spark or Kafka.

A fleet of groups is made, then all of it is touched, or one group in a hundred, as `make bench --only assignments`
does; the code is the query's own. Prints the CPU time of each step, its trips to the state store, and its costliest
functions.
"""

import argparse
import cProfile
import pstats
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES
from streaming.queries.pack import pack
from streaming.queries.parcel import Parcel, decode_parcel, encode
from streaming.queries.shard import work_through
from streaming.queries.state import StateCache, without_pauses
from streaming.queries.store import DictShardStore
from tests.lab.bench.events import BROKERS, CLUSTER, Event, clock, heartbeat, pull, route
from tests.support.engine import CountingStore
from tests.support.rules import default_rules
from udfs.alerts.rulebook import Rulebook

QUEUES, CLIENTS = 4, 4
"""Of each broker; of each group."""

START_MS, STEP_MS = 1_750_000_000_000, 1_000
ARROW_ROWS = 20_000
LINES = 15
"""Functions to print of each step."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="make profile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog='examples:\n  make profile\n  make profile ARGS="--groups 2000 --touched few"',
    )
    parser.add_argument("--groups", type=int, default=10_000, help="consumer groups (default: %(default)s)")
    parser.add_argument("--touched", choices=("all", "few"), default="all", help="in the batch that is profiled")
    options = parser.parse_args()
    every = 1 if options.touched == "all" else 100
    store, states = CountingStore(), StateCache()
    for number, step in enumerate((1, every, every)):
        messages = list(_arrow(_messages(range(0, options.groups, step), START_MS + number * STEP_MS)))
        is_last = number == 2
        with without_pauses():
            packed = _timed(f"batch {number}: pack", lambda held=messages: _pack(held), LINES * is_last)
            store.trips.clear()
            parcels = _timed(f"batch {number}: decode", lambda held=packed: [decode_parcel(one) for one in held], 0)
            work = lambda held=parcels: _work(store, states, held)  # noqa: E731  # each batch has its own
            _timed(f"batch {number}: shard", work, LINES * is_last)
        print(f"batch {number}: {sum(store.trips.values())} trips to the state store: {dict(store.trips)}")


def _pack(messages: list[pa.RecordBatch]) -> list[bytes]:
    return [encode(parcel) for parcels in pack(messages, 1) for parcel in parcels]


def _work(store: DictShardStore, states: StateCache, parcels: list[Parcel]) -> None:
    with states.state_of(0, store) as state:
        work_through(0, 1, state, Rulebook(default_rules()), parcels)


def _timed(name: str, work: Any, lines: int) -> Any:
    """What the work gives; its CPU time is printed, and with `lines` its costliest functions."""
    profile = cProfile.Profile() if lines else None
    before = time.process_time()
    result = profile.runcall(work) if profile is not None else work()
    print(f"{name}: {time.process_time() - before:.3f} s of CPU" + (" under the profiler" if profile else ""))
    if profile is not None:
        pstats.Stats(profile, stream=sys.stdout).strip_dirs().sort_stats("tottime").print_stats(lines)
    return result


def _arrow(messages: list[tuple[str, int, Event]]) -> Iterator[pa.RecordBatch]:
    """As Spark hands them over."""
    names = ["topic", "partition", "offset", "ingest_time_ms", "value"]
    for start in range(0, len(messages), ARROW_ROWS):
        rows = [
            (topic, 0, offset, event["event_time_ms"] + 5, msgspec.json.encode(event))
            for topic, offset, event in messages[start : start + ARROW_ROWS]
        ]
        types = (pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.binary())
        columns = [pa.array(column, of) for column, of in zip(zip(*rows, strict=True), types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _messages(groups: range, at_ms: int) -> list[tuple[str, int, Event]]:
    """A heartbeat a client and a pull a queue of these groups, all healthy, and the clock event after them."""
    events = [(ROUTES, route("orders", BROKERS, QUEUES, at_ms))]
    for group in groups:
        members = [
            (
                f"group-{group}",
                "orders",
                f"10.0.{group % 250}.{client}@{group}",
                f"10.0.{group // 250}.{group % 250}:{40_000 + client}",
            )
            for client in range(CLIENTS)
        ]
        events += [(HEARTBEATS, heartbeat(*member, BROKERS[0], at_ms)) for member in members]
        for member, broker_name in zip(members, BROKERS, strict=True):  # by AVG a broker's queues are one client's
            events += [(PULLS, pull(*member, broker_name, queue, at_ms)) for queue in range(QUEUES)]
    events.append((CLOCKS, clock(CLUSTER, BROKERS, at_ms + 1)))
    return [(topic, offset, event) for offset, (topic, event) in enumerate(events)]


if __name__ == "__main__":
    main()
