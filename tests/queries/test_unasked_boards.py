"""A broker that nobody asks and nobody sends to any more keeps no k of n, whether its board gets a tick or not."""

from typing import Any

import pytest

from schemas.events import SEND_LATENCIES
from tests.queries.events import Event, asked, clock, send
from tests.queries.logs import MINUTE, SECOND, START
from tests.support.engine import Stream
from tests.support.rules import default_rules

pytestmark = pytest.mark.replay

Rows = dict[str, list[dict[str, Any]]]
IDLE_S = default_rules().fault_item_idle_ms // SECOND
DAY_S = 86_400


def ticks(from_s: int, until_s: int, *brokers: str, step_s: int = 60) -> list[Event]:
    """Rounds, and a producer that goes on sending elsewhere."""
    rounds = range(from_s, until_s, step_s)
    return [
        one for second in rounds for one in (send(second, broker_name="broker-a"), clock(second, **asked(*brokers)))
    ]


def by_broker(rows: Rows) -> dict[str, dict[str, Any]]:
    return {row["broker_name"]: row for row in sorted(rows["broker_health"], key=lambda row: row["changed_at"])}


def played(events: list[Event], is_one_batch: bool) -> Rows:
    return Stream().feed_each([events] if is_one_batch else ([one] for one in events))


@pytest.mark.parametrize("is_one_batch", [True, False])
def test_a_broker_that_is_taken_out_while_it_is_avoided_ends_with_nobody(is_one_batch: bool) -> None:
    """Its last sends were slow, and no tick asks it any more: its items come back with nobody to tell it."""
    slow = [send(61, latency_ms=4_000), send(62, "p1", latency_ms=4_000)]
    events = [*ticks(0, 61, "broker-a", "broker-b"), *slow, *ticks(65, 65 + IDLE_S + 120, "broker-a")]
    rows = played(events, is_one_batch)
    last = by_broker(rows)["broker-b"]
    assert (last["unavailable_producers"], last["producers"], last["unavailable_until"]) == (0, 0, None)
    assert (last["changed_at"] - START) // SECOND == 62 + IDLE_S
    items = sorted((row for row in rows["fault_items"]), key=lambda row: row["changed_at"])
    newest = {row["client_id"]: row for row in items if row["broker_name"] == "broker-b"}
    assert {client_id: row["available"] for client_id, row in newest.items()} == {"p0": True, "p1": True}
    assert all(row["changed_at"] == row["start_timestamp"] for row in newest.values())


def test_what_a_broker_that_is_asked_has_reported_itself_is_not_reported_again() -> None:
    events = [*ticks(0, 61, "broker-a", "broker-b"), send(61, latency_ms=4_000)]
    events += [*ticks(62, 1_000, "broker-a", "broker-b"), *ticks(1_000, 1_000 + IDLE_S + 120, "broker-a")]
    rows = played(events, is_one_batch=False)
    reported = [row for row in rows["fault_items"] if row["broker_name"] == "broker-b"]
    assert [row["available"] for row in reported] == [False, True]
    last = by_broker(rows)["broker-b"]
    assert (last["producers"], (last["changed_at"] - START) // SECOND) == (0, 962 + IDLE_S)


def test_a_broker_that_is_asked_and_that_nobody_sends_to_any_more_ends_with_nobody_too() -> None:
    events = [send(1, latency_ms=4_000), *ticks(5, IDLE_S + 200, "broker-a", "broker-b")]
    last = by_broker(played(events, is_one_batch=False))["broker-b"]
    assert (last["unavailable_producers"], last["producers"]) == (0, 0)


def test_an_item_that_only_a_send_brings_back_is_kept_for_a_day() -> None:
    """5.1.4 keeps a broker that it could not reach out for good, as long as the producer lives."""
    evicted = send(61, client_version="5.1.4", reachable=False, isolation=True, latency_ms=3_000)
    sends = [
        (topic, event | {"client_version": "5.1.4"} if topic == SEND_LATENCIES else event)
        for topic, event in ticks(65, DAY_S + 400, "broker-a", step_s=300)
    ]
    stream, rows = Stream(), []
    stream.feed([*ticks(0, 61, "broker-a", "broker-b"), evicted])
    for at in range(0, len(sends), 40):
        rows += stream.feed(sends[at : at + 40])["broker_health"]
    assert [(row["producers"], (row["changed_at"] - START) // SECOND) for row in rows] == [(0, 61 + DAY_S)]


def test_a_broker_that_nobody_ever_avoided_has_no_row() -> None:
    events = [send(1), *ticks(5, IDLE_S + 5 * MINUTE // SECOND, "broker-a")]
    assert played(events, is_one_batch=False)["broker_health"] == []
