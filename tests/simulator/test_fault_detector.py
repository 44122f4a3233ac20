"""The detector of 5.1.4+: it makes brokers reachable, never unreachable, and forgets those without an address."""

from streaming.simulator.producer import DETECT_INTERVAL_MS, detect_by_one_round
from udfs.rocketmq.fault import FaultItem, is_available

NOW = 1_700_000_000_000
LOST, WELL = FaultItem("lost", 3, NOW - 1, reachable=False), FaultItem("well", 3, NOW + 9_000)
ITEMS = {"lost": LOST, "well": WELL}
BOTH = {"lost", "well"}


def test_a_broker_that_answers_is_reachable_and_5_1_4_comes_back_to_it() -> None:
    assert not is_available(LOST, NOW, "5.1.4")
    items, _ = detect_by_one_round(ITEMS, {}, NOW, BOTH, BOTH)
    assert is_available(items["lost"], NOW, "5.1.4")
    assert items["lost"].start_timestamp_ms == LOST.start_timestamp_ms
    assert items["well"] == WELL, "being reachable shortens no isolation"


def test_a_broker_that_does_not_answer_stays_as_it_was() -> None:
    """So a broker that dies after its last send counts as reachable for ever (PR #11146)."""
    items, _ = detect_by_one_round(ITEMS, {}, NOW, BOTH, set())
    assert items == ITEMS


def test_a_broker_without_an_address_is_forgotten() -> None:
    items, stamps_ms = detect_by_one_round(ITEMS, {}, NOW, {"well"}, set())
    assert set(items) == set(stamps_ms) == {"well"}


def test_one_broker_is_asked_every_two_seconds_at_most() -> None:
    _, stamps_ms = detect_by_one_round({"lost": LOST}, {}, NOW, BOTH, set())
    assert stamps_ms == {"lost": NOW + DETECT_INTERVAL_MS}
    early, due = NOW + DETECT_INTERVAL_MS - 1, NOW + DETECT_INTERVAL_MS
    items, stamps_ms = detect_by_one_round(ITEMS, stamps_ms, early, BOTH, BOTH)
    assert not items["lost"].reachable
    assert stamps_ms == {"lost": NOW + DETECT_INTERVAL_MS, "well": early + DETECT_INTERVAL_MS}
    items, stamps_ms = detect_by_one_round(items, stamps_ms, due, BOTH, BOTH)
    assert items["lost"].reachable
    assert stamps_ms == {"lost": due + DETECT_INTERVAL_MS, "well": early + DETECT_INTERVAL_MS}
