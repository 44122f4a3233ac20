"""Events of one small cluster, written by hand: "c", with broker-a, the topic "orders" and the group "g"."""

from collections.abc import Iterable, Iterator
from typing import Any

from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from tests.queries.logs import SECOND, START

Event = tuple[str, dict[str, Any]]

BOTH = ("broker-a", "broker-b")


def place(second: float) -> dict[str, Any]:
    return {"cluster": "c", "event_time_ms": START + round(second * SECOND)}


def in_order(*events: Event) -> list[Event]:
    """By event time; events of one time stay as they are."""
    return sorted(events, key=lambda one: one[1]["event_time_ms"])


def by_ticks(events: Iterable[Event]) -> Iterator[list[Event]]:
    """A batch a clock event, which ends it, as events come live; then what is left."""
    batch: list[Event] = []
    for event in events:
        batch.append(event)
        if event[0] == CLOCKS:
            yield batch
            batch = []
    if batch:
        yield batch


def route(second: float, queues: int = 8, topic: str = "orders", *others: str) -> Event:
    """Of broker-a, and of `others`; no queues at all is the route of a deleted topic."""
    each = {"read_queue_nums": queues, "write_queue_nums": queues, "perm": 6}
    data = [{"broker_name": name, **each} for name in ("broker-a", *others) if queues]
    return ROUTES, {**place(second), "topic": topic, "queues": data, "brokers": []}


def asked(*brokers: str) -> dict[str, Any]:
    """A round in which these brokers were asked and answered."""
    return {"brokers_asked": list(brokers), "brokers_answered": list(brokers)}


def clock(second: float, source: str = "collector", **reported: Any) -> Event:
    return CLOCKS, {**place(second), "source": source, **asked("broker-a"), **reported}


def beat(
    second: float, client_id: str, client_addr: str, group: str = "g", topic: str = "orders", **reported: Any
) -> Event:
    consumer = {
        "consumer_group": group,
        "consume_type": "CONSUME_PASSIVELY",
        "message_model": "CLUSTERING",
        "consume_from_where": "CONSUME_FROM_LAST_OFFSET",
        "subscriptions": [{"topic": topic, "sub_string": "*", "sub_version": 1, "expression_type": "TAG"}],
    }
    return HEARTBEATS, {
        **place(second),
        "broker_name": "broker-a",
        "client_id": client_id,
        "client_addr": client_addr,
        "language": "JAVA",
        "client_version": "4.8.0",
        "producer_groups": [],
        "consumers": [consumer],
        **reported,
    }


def pull(
    second: float,
    queue_id: int,
    client_id: str = "A",
    client_addr: str | None = "h1:1",
    group: str = "g",
    **reported: Any,
) -> Event:
    return PULLS, {
        **place(second),
        "broker_name": "broker-a",
        "broker_id": 0,
        "topic": "orders",
        "queue_id": queue_id,
        "consumer_group": group,
        "client_addr": client_addr,
        "client_id": client_id,
        "pull_offset": 1,
        **reported,
    }


def send(second: float, client_id: str = "p0", broker_name: str = "broker-b", **reported: Any) -> Event:
    event = {"client_id": client_id, "client_version": "5.5.0", "topic": "orders", "broker_name": broker_name}
    return SEND_LATENCIES, {**place(second), **event, "queue_id": 0, "latency_ms": 3, "isolation": False, **reported}


def groups_of_two(until: int, dead_at: int, *, everywhere: bool = False) -> list[Event]:
    """12 groups of two clients on two brokers, heartbeats spread over 30 s, reported by agents; then broker-b is gone.

    With `everywhere` nothing at all arrives from then on.
    """
    events: list[Event] = [route(0, 2, f"t{group}", "broker-b") for group in range(12)]
    for second in range(0, until, 10):
        brokers = BOTH if second < dead_at else () if everywhere else BOTH[:1]
        for group in range(12):
            for owner, broker in zip("AB", brokers, strict=False):
                if second // 10 % 3 == group % 3:
                    for client in "AB":
                        beat_at = second + group % 3 * 3 + (client == "B")
                        who = (f"{client}{group}", f"{client}{group}:1")
                        events.append(beat(beat_at, *who, f"g{group}", f"t{group}", broker_name=broker))
                who = (f"{owner}{group}", f"{owner}{group}:1")
                events += [
                    pull(second, queue_id, *who, f"g{group}", topic=f"t{group}", broker_name=broker)
                    for queue_id in range(2)
                ]
        events += [clock(second + tick, "run", **asked()) for tick in (4, 9)]
    return in_order(*events)
