"""MQFaultStrategy as arithmetic: latency in, unavailability out. The clock and the rng are the caller's.

One row a range of releases, in RULES, read in MQFaultStrategy and LatencyFaultToleranceImpl. A `client_version` is
three numbers or their text ("4.9.8", "V5_1_4").
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from udfs.rocketmq.thread_local_index import remainder
from udfs.rocketmq.version import NEWEST, ClientVersion, release_of


@dataclass(frozen=True, slots=True)
class FaultItem:
    """What one producer remembers of one broker: LatencyFaultToleranceImpl.FaultItem.

    current_latency_ms    the newest attempt's real latency, also when that attempt isolated the broker
    start_timestamp_ms    from when the broker counts as available again; 0 when 5.1.4+ has never shut it out
    reachable             5.1.4+: what the newest attempt or the detector said; always true before
    """

    name: str
    current_latency_ms: int
    start_timestamp_ms: int
    reachable: bool = True


@dataclass(frozen=True, slots=True)
class LatencyTable:
    """`latency_max_ms[i]` or more is answered by `not_available_duration_ms[i]`, looked up from the top.

    An attempt that isolates the broker counts as one of `isolation_latency_ms`.
    """

    latency_max_ms: tuple[int, ...]
    not_available_duration_ms: tuple[int, ...]
    isolation_latency_ms: int


@dataclass(frozen=True, slots=True)
class FaultRules:
    """How the releases from `since` on, up to the next row, treat a slow or failed broker."""

    since: ClientVersion
    latency_table: LatencyTable
    only_extends: bool
    needs_reachable: bool


_UP_TO_5_1_3 = LatencyTable(
    latency_max_ms=(50, 100, 550, 1000, 2000, 3000, 15000),
    not_available_duration_ms=(0, 0, 30_000, 60_000, 120_000, 180_000, 600_000),
    isolation_latency_ms=30_000,
)
_FROM_5_1_4 = LatencyTable(
    latency_max_ms=(50, 100, 550, 1800, 3000, 5000, 15000),
    not_available_duration_ms=(0, 0, 2_000, 5_000, 6_000, 10_000, 30_000),
    isolation_latency_ms=10_000,
)

RULES = (
    FaultRules((0, 0, 0), _UP_TO_5_1_3, only_extends=False, needs_reachable=False),
    # RIP-63, #6567. From here on an item starts available, and only a slow or failed attempt moves it.
    FaultRules((5, 1, 4), _FROM_5_1_4, only_extends=True, needs_reachable=True),
    FaultRules((5, 2, 0), _FROM_5_1_4, only_extends=True, needs_reachable=False),
)
"""Oldest first."""

_SINCE = [rules.since for rules in RULES]


@lru_cache(maxsize=1024)
def rules_of(client_version: ClientVersion | str) -> FaultRules:
    return RULES[bisect_right(_SINCE, release_of(client_version)) - 1]


def only_extends(client_version: ClientVersion | str) -> bool:
    """True from 5.1.4: an attempt can only move start_timestamp_ms later. Before, each one overwrites it."""
    return rules_of(client_version).only_extends


def compute_not_available_duration(current_latency_ms: int, client_version: ClientVersion | str = NEWEST) -> int:
    """MQFaultStrategy.computeNotAvailableDuration: milliseconds to stay away; 0 below the first row."""
    table = rules_of(client_version).latency_table
    row = bisect_right(table.latency_max_ms, current_latency_ms)
    return table.not_available_duration_ms[row - 1] if row else 0


def update_fault_item(
    item: FaultItem | None,
    broker_name: str,
    current_latency_ms: int,
    isolation: bool,
    reachable: bool,
    now_ms: int,
    client_version: ClientVersion | str = NEWEST,
) -> FaultItem:
    """MQFaultStrategy.updateFaultItem: what a producer remembers after an attempt. `item` None: its first.

    Up to 5.1.3 every attempt sets start_timestamp_ms to now + duration, so one quick send makes the broker
    available at once. From 5.1.4 a duration above 0 only moves it later and a quick send leaves it as it was.
    """
    rules = rules_of(client_version)
    counted_ms = rules.latency_table.isolation_latency_ms if isolation else current_latency_ms
    duration_ms = compute_not_available_duration(counted_ms, client_version)
    if not rules.only_extends:
        return FaultItem(broker_name, current_latency_ms, now_ms + duration_ms)
    start_timestamp_ms = item.start_timestamp_ms if item else 0
    if duration_ms > 0:
        start_timestamp_ms = max(start_timestamp_ms, now_ms + duration_ms)
    return FaultItem(broker_name, current_latency_ms, start_timestamp_ms, reachable)


def is_available(item: FaultItem | None, now_ms: int, client_version: ClientVersion | str = NEWEST) -> bool:
    """LatencyFaultToleranceImpl.isAvailable: its time has come; from 5.1.4, before 5.2.0, it must be reachable too.

    So a producer of 5.1.4 without a detector never comes back to a broker once it was unreachable (#7812). A broker
    it has no item of is available.
    """
    if item is None:
        return True
    if not item.reachable and rules_of(client_version).needs_reachable:
        return False
    return now_ms >= item.start_timestamp_ms


def order_fault_items(
    items: Iterable[FaultItem], now_ms: int, client_version: ClientVersion | str = NEWEST
) -> list[FaultItem]:
    """FaultItem.compareTo: available first, then the lower latency, then the earlier start_timestamp_ms.

    Equal items keep the order they came in.
    """
    return sorted(
        items,
        key=lambda item: (
            not is_available(item, now_ms, client_version),
            item.current_latency_ms,
            item.start_timestamp_ms,
        ),
    )


def pick_one_at_least(
    items: Iterable[FaultItem], now_ms: int, client_version: ClientVersion | str = NEWEST, index: int = 0
) -> str | None:
    """LatencyFaultToleranceImpl.pickOneAtLeast: the broker to take when none is eligible; None without one.

    Up to 5.1.3 one of the better half, by `index` (what ThreadLocalIndex gave; 0 or more), or the best of one or two
    or three. From 5.1.4 the first reachable one. `items` come in the order of the rng: shuffled up to 4.9.3 and
    from 5.1.4, as the hash table lists them between; up to 5.1.3 it decides only between items that compare equal.
    Raises IndexError where Java does: 4.8.0 to 4.9.3 divide Integer.MIN_VALUE once in 2^32 calls.
    """
    if only_extends(client_version):
        return next((item.name for item in items if item.reachable), None)
    ordered = order_fault_items(items, now_ms, client_version)
    if not ordered:
        return None
    half = len(ordered) // 2
    place = remainder(index, half) if half else 0
    if place < 0:
        raise IndexError(f"no item {place} of {len(ordered)}")
    return ordered[place].name
