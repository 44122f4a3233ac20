"""A broker's FaultItems by the rule of `udfs/`, an attempt at a time: every rival keeps them in its own kind of state.

A quick attempt at an available item, which nearly all are, only moves three fields.
"""

from functools import cache

import msgspec

from tests.lab.bench.rivals.work import Row
from udfs.producers.attempts import AttemptsBuilder
from udfs.producers.board import Flip, Item
from udfs.rocketmq.fault import only_extends


class Attempt(msgspec.Struct, gc=False):
    """A message of rocketmq.send_latencies; what the rule does not ask is not decoded."""

    cluster: str
    client_id: str
    client_version: str
    broker_name: str
    latency_ms: int
    event_time_ms: int
    isolation: bool = False
    reachable: bool | None = None


decode_attempt = msgspec.json.Decoder(Attempt).decode


@cache
def quick_below_ms(client_version: str) -> int:
    """The lowest latency that shuts a broker out."""
    return AttemptsBuilder("", client_version).quick_below(isolation=False, reachable=True)


@cache
def moves_start(client_version: str) -> bool:
    """Up to 5.1.3 every attempt sets startTimestamp."""
    return not only_extends(client_version)


def apply_attempt(item: Item | None, attempt: Attempt) -> tuple[Item, list[Row]]:
    """The item after an attempt, and a row a flip: its time may have come, and the attempt may shut it out."""
    now_ms, version = attempt.event_time_ms, attempt.client_version
    if (
        item is not None
        and item.is_available
        and attempt.latency_ms < quick_below_ms(version)
        and not attempt.isolation
        and attempt.reachable is not False
        and item.client_version == version
        and now_ms >= item.seen_ms
    ):
        item.seen_ms, item.current_latency_ms, item.reachable = now_ms, attempt.latency_ms, True
        if moves_start(version):
            item.start_timestamp_ms = now_ms
        return item, []
    rows = []
    if item is not None and (flip := item.expire(attempt.client_id, now_ms)) is not None:
        rows.append(_row(attempt, flip))
    builder = AttemptsBuilder(attempt.client_id, version)
    builder.add(now_ms, attempt.latency_ms, attempt.isolation, attempt.reachable is not False)
    (step,) = builder.attempts.steps
    if item is None:
        item = Item.of(version, step, now_ms)
    if (flip := item.apply(attempt.client_id, version, step)) is not None:
        rows.append(_row(attempt, flip))
    return item, rows


def _row(attempt: Attempt, flip: Flip) -> Row:
    return {
        "cluster": attempt.cluster,
        "broker_name": attempt.broker_name,
        "client_id": flip.client_id,
        "client_version": flip.client_version,
        "current_latency_ms": flip.current_latency_ms,
        "isolation": flip.isolation,
        "start_timestamp": flip.start_timestamp_ms,
        "available": flip.available,
        "changed_at": flip.changed_at_ms,
    }
