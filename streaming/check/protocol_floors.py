"""Warnings about thresholds that are shorter than a RocketMQ client's own intervals."""

from collections.abc import Iterator
from typing import Any

from streaming.text.times import span_text
from udfs.alerts.rulebook import Rulebook

FLOORS = {
    "channel_expired_ms": (30_000, "clients send a heartbeat every 30 s"),
    "pull_silence_ms": (20_000, "an idle healthy queue is pulled every 15 to 20 s"),
    "settle_ms": (20_000, "clients rebalance every 20 s"),
    "heartbeat_late_ms": (30_000, "clients send a heartbeat every 30 s"),
    "consume_silence_ms": (5_000, "clients commit their offsets every 5 s"),
}
"""Key of the rules to the shortest useful value, and the interval it comes from."""


def floor_warnings(rulebook: Rulebook) -> Iterator[str]:
    """Yield a sentence for each threshold below its floor, of the rules and of each override."""
    for key in FLOORS:
        yield from _warning("rules", key, getattr(rulebook.base, key))
    for override in rulebook.overrides:
        for key, value in override.changes():
            yield from _warning(f"override {override.name!r}", key, value)


def _warning(where: str, key: str, value: Any) -> Iterator[str]:
    floor_ms, reason = FLOORS.get(key, (0, ""))
    if floor_ms and value < floor_ms:
        meant = f'; the unit is ms, write "{value}s" for seconds' if value < 1_000 else ""
        yield f"{where}: {key} = {value} is below {span_text(floor_ms)}, but {reason}{meant}"
