"""LatencyFaultToleranceImpl.detectByOneRound: how a producer of 5.1.4+ learns that a broker is reachable again.

Off unless startDetectorEnable is set. Success makes an item reachable; failure never makes it unreachable.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from udfs.rocketmq.fault import FaultItem

DETECT_PERIOD_MS = 3_000
"""startDetector: a round every three seconds, the first after three."""
DETECT_INTERVAL_MS = 2_000
"""ClientConfig.detectInterval: one broker is not asked more often."""
DETECT_TIMEOUT_MS = 200
"""ClientConfig.detectTimeout of the GET_MAX_OFFSET that asks."""


def brokers_to_detect(
    items: Mapping[str, FaultItem], check_stamps_ms: Mapping[str, int], now_ms: int
) -> tuple[str, ...]:
    """The brokers this round asks. `check_stamps_ms` is FaultItem.checkStamp by broker, 0 for one never asked."""
    return tuple(name for name in items if now_ms >= check_stamps_ms.get(name, 0))


def detect_by_one_round(
    items: Mapping[str, FaultItem],
    check_stamps_ms: Mapping[str, int],
    now_ms: int,
    addresses: Collection[str],
    answered: Collection[str],
) -> tuple[dict[str, FaultItem], dict[str, int]]:
    """FaultItems and check stamps after a round. An item whose broker is not in `addresses` is dropped.

    `addresses`: brokers whose master the producer knows an address of. `answered`: those that answered in time; a
    producer that has sent to no topic yet gets no answer, for it has none to ask about.
    """
    asked = brokers_to_detect(items, check_stamps_ms, now_ms)
    dropped = {name for name in asked if name not in addresses}
    detected = {
        name: replace(item, reachable=True) if name in asked and name in answered else item
        for name, item in items.items()
        if name not in dropped
    }
    stamps_ms = {
        name: now_ms + DETECT_INTERVAL_MS if name in asked else check_stamps_ms.get(name, 0) for name in detected
    }
    return detected, stamps_ms
