"""Brokers that no tick asks and nobody sends to any more: their boards get nothing to tell by, so the fleet does.

A board's time comes with its sends and with ticks that ask its broker. One that is taken out of the routes, or out of
service, would keep its last k of n for ever. Its items come back by the clock all the same, and after `idle_ms` nobody
counts as sending to it; an item that only a send can bring back is kept as long as a board keeps it (LOST_MS).
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from udfs.producers.board import LOST_MS, Flip, Health
from udfs.producers.fleet import Fleet


class LastRows(NamedTuple):
    """What is left to tell of a broker."""

    broker_name: str
    flips: list[Flip]
    health: Health


def note_asked(fleet: Fleet, asked_ms: Mapping[str, int]) -> None:
    """Ticks up to then have come to these brokers' boards."""
    for broker_name in asked_ms.keys() & fleet.boards.keys():
        seen = fleet.boards[broker_name]
        seen.heard_ms = max(seen.heard_ms, asked_ms[broker_name])


def close_unasked(fleet: Fleet, idle_ms: int) -> Iterator[LastRows]:
    """Of each broker that is given up by now, what its board could not tell; nothing where it never had a row."""
    for broker_name, seen in sorted(fleet.boards.items()):
        seen.returns = [flip for flip in seen.returns if flip.changed_at_ms > seen.heard_ms]
        is_avoided = any(not item.is_available for item in fleet.shut_out.get(broker_name, {}).values())
        over_ms = seen.heard_ms + (LOST_MS if is_avoided else idle_ms)
        if fleet.judged_ms < over_ms:
            continue
        del fleet.boards[broker_name]
        if seen.has_reported:
            yield LastRows(broker_name, seen.returns, Health(0, 0, None, over_ms))
