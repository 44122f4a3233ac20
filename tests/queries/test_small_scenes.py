"""Small scenes, written event by event, through the code of the stream: what a collector of another world tells."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from schemas.events import ROUTES
from tests.queries.events import Event, beat, clock, pull, route
from tests.queries.logs import SECOND, START
from tests.support.engine import cut, messages_of, replay
from tests.support.tiers import in_proof

pytestmark = pytest.mark.replay

Tell = Callable[[int], Iterator[Event]]


def play(tell: Tell, until: int, *, every: int = 10, **reported: Any) -> dict[str, list[dict[str, Any]]]:
    """Rounds of a collector; what `tell` tells of each comes before its clock event. Through two shards, in batches."""
    events: list[Event] = []
    for second in range(0, until, every):
        if second % 30 == 0:
            brokers = [{"broker_name": "broker-a", "broker_ids": [0]}]
            events.append((ROUTES, {**route(second, 4)[1], "brokers": brokers, **reported}))
        events += tell(second)
        events.append(clock(second))
    return replay(cut(messages_of(events), 7))


def pages(rows: dict[str, list[dict[str, Any]]]) -> list[tuple[int, str, str]]:
    return [
        ((row["changed_at"] - START) // SECOND, row["kind"], row["cause"])
        for row in rows.get("alerts", [])
        if row["state"] == "FIRING" and row["severity"] != "info" and not row["inhibited_by"]
    ]


@pytest.mark.parametrize("reported", [{}, {"is_listed_only": True}], ids=["as before", "told"])
def test_a_reconnect_that_a_broker_lists_beside_its_dead_channel_is_no_twin(reported: dict[str, Any]) -> None:
    """A broker that tells no heartbeats lists a dead channel for two minutes and a scan."""

    def tell(second: int) -> Iterator[Event]:
        addr = "10.0.0.1:1" if second < 200 else "10.0.0.1:2"
        yield beat(second, "a@7", addr, **reported)
        if 200 <= second < 330:
            yield beat(second, "a@7", "10.0.0.1:1", **reported)
        elif second == 330:
            yield beat(second, "a@7", "10.0.0.1:1", **reported, leaving=True)
        yield from (pull(second, queue_id, "a@7", addr) for queue_id in range(4))

    assert pages(play(tell, 900)) == []


@pytest.mark.parametrize("reported", [{}, {"is_listed_only": True}], ids=["as before", "told"])
def test_twins_at_a_broker_that_reports_no_heartbeats_are_reported_when_none_can_be_dead(
    reported: dict[str, Any],
) -> None:
    def tell(second: int) -> Iterator[Event]:
        yield beat(second, "a@7", "10.0.0.1:1", **reported)
        if second >= 200:
            yield beat(second, "a@7", "10.0.0.2:1", **reported)
        yield from (pull(second, queue_id, "a@7", "10.0.0.1:1") for queue_id in (range(4) if second < 200 else (0, 1)))

    said = pages(play(tell, 900))
    assert said[0] == (340, "duplicate_client_id", "duplicate_client_id")


def test_pods_with_a_group_of_their_own_are_replaced_in_silence_across_shards() -> None:
    """Twelve pods, each with its group, are replaced one after the other; a thirteenth is lost and told."""

    def life(number: int) -> Iterator[tuple[str, int, int]]:
        yield f"cache-7d9f8c6b5-x2k{number:02}", 0, 600 + 20 * number
        yield f"cache-84cdbf7f9-p7q{number:02}", 570 + 20 * number, 2_000

    pods = [pod for number in range(12) for pod in life(number)] + [("billing-84cdbf7f9-p7q99", 0, 600)]

    def tell(second: int) -> Iterator[Event]:
        for number, (group, born, died) in enumerate(pods):
            client_id, addr = f"10.0.1.{number}@1", f"10.0.1.{number}:1"
            if born <= second < died:
                yield beat(second, client_id, addr, group)
                yield from (pull(second, queue_id, client_id, addr, group) for queue_id in range(4))
            elif second == died:
                yield beat(second, client_id, addr, group, leaving=True)

    rows = play(tell, 1_500)
    said = [row for row in rows["alerts"] if row["state"] == "FIRING"]
    assert {row["consumer_group"] for row in said} == {"billing-84cdbf7f9-p7q99"}
    assert "group_offline" in {row["kind"] for row in said}
    newest = {(row["consumer_group"], row["queue_id"]): row for row in rows["assignments"]}
    replaced = [row for (group, _), row in newest.items() if group.startswith("cache-7d9f8c6b5")]
    assert {(row["verdict"], row["verdict_reason"]) for row in replaced} == {("NOT_JUDGED", "replaced")}


def test_a_static_topic_beside_a_normal_one_is_not_judged() -> None:
    def tell(second: int) -> Iterator[Event]:
        yield beat(second, "a@7", "10.0.0.1:1")
        yield pull(second, 0, "a@7", "10.0.0.1:1", topic="normal")
        yield pull(second, 2, "a@7", "10.0.0.1:1", broker_name="__syslo__global__")

    rows = play(tell, 600, has_queue_mapping=True)
    assert pages(rows) == []
    of_orders = [row for row in rows["assignments"] if row["topic"] == "orders"]
    reported = {(row["planned_owner"], row["verdict"], row["verdict_reason"]) for row in of_orders}
    assert reported == {(None, "NOT_JUDGED", "static_topic")}


@pytest.mark.parametrize("phase", [0, 14, *in_proof([7, 21, 28])])
@pytest.mark.parametrize("every", [25, 30])
def test_a_frozen_client_is_reported_in_rounds_between_which_it_is_late_only_once(every: int, phase: int) -> None:
    """Its heartbeats are late for 50 s, then the broker drops it, and the other takes its queues."""

    def tell(second: int) -> Iterator[Event]:
        for client_id, addr, queue_ids in (("a@7", "10.0.0.1:1", (0, 1)), ("b@7", "10.0.0.2:1", (2, 3))):
            last = second if client_id == "b@7" else min(second, 598)
            beaten = last - (last - phase) % 30
            if second < beaten + 125:
                yield beat(beaten, client_id, addr)
                yield from (pull(last, queue_id, client_id, addr) for queue_id in queue_ids)
            if client_id == "b@7" and second > 745:
                yield from (pull(second, queue_id, client_id, addr) for queue_id in (0, 1))

    said = pages(play(tell, 900, every=every))
    assert ("starved_queue", "frozen_client") in {row[1:] for row in said if row[0] <= 750}
