"""The events a round publishes: what changed since the rounds before. Pure: reading and memory in, both out.

No event of a round is later than the round's own time, whatever the brokers' and the clients' clocks say, so the
clock event that ends the round never overtakes one. What moved since the round before is not earlier than that, so
no machine's clock decides what is late.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from schemas.events import ROUTES, SEND_LATENCIES
from streaming.collector.clock_events import date_no_data
from streaming.collector.heartbeat_events import select_heartbeats
from streaming.collector.machine_skew import Machine, update_skews
from streaming.collector.pull_events import select_offsets, select_pulls
from streaming.collector.reading import Latency, Reading, find_group_names, find_members, update_profiles
from streaming.collector.rocketmq_answers import TopicRoute
from streaming.collector.round_memory import Memory, Moment

ROUTE_REPEAT_MS = 30_000

Key = TypeVar("Key")
Value = TypeVar("Value")
Event = tuple[str, dict[str, Any]]
"""Kafka topic and the event."""


def compute_round(memory: Memory, reading: Reading, round_time_ms: int) -> tuple[list[Event], Memory]:
    """The events of a round but its clock, and the memory they leave."""
    now = Moment(round_time_ms - reading.took_ms, round_time_ms)
    profiles = update_profiles(memory.profiles, reading)
    heartbeats, channels, broker_stamps = select_heartbeats(memory, reading, profiles, now)
    pulls, pulled, client_stamps = select_pulls(memory, reading, channels, now)
    offsets, known_offsets = select_offsets(memory, reading, pulls, now)
    routes, routed = select_routes(memory.routes, reading, round_time_ms)
    latencies = [latency_event(reading.cluster, latency, round_time_ms) for latency in reading.latencies]
    members = find_members(reading.brokers.values())
    skews = update_skews(memory.skews, [*broker_stamps, *client_stamps], round_time_ms)
    is_complete = set(reading.brokers) >= set(reading.brokers_asked)
    machines = {Machine("broker", name) for name in reading.brokers_asked} | {
        Machine("client", client_id) for _, client_id in members
    }
    return [*routes, *heartbeats, *pulls, *offsets, *latencies], Memory(
        profiles=profiles,
        channels=channels,
        pulls=pulled,
        offsets=known_offsets,
        routes=routed,
        groups={**memory.groups, **find_group_names(reading)},
        heard=_of(memory.heard, reading.brokers_asked) | dict.fromkeys(reading.brokers, now),
        answered=(_of(memory.answered, members) if is_complete else dict(memory.answered))
        | dict.fromkeys(reading.running, now),
        skews=_of(skews, machines) if is_complete else skews,
        unheard=date_no_data(memory.unheard, reading, round_time_ms),
    )


def _of(known: Mapping[Key, Value], wanted: Iterable[Key]) -> dict[Key, Value]:
    """What is known of these."""
    return {key: known[key] for key in wanted if key in known}


def select_routes(
    known: Mapping[str, tuple[TopicRoute, int]], reading: Reading, round_time_ms: int
) -> tuple[list[Event], dict[str, tuple[TopicRoute, int]]]:
    """Routes that changed or were not said for ROUTE_REPEAT_MS, and an empty one for each topic that was deleted.

    A topic is deleted when the NameServer lost it while all its brokers are registered. When a broker is gone too,
    the NameServer only forgot: clients go on with the route they have.
    """
    kept = dict(known)
    events = []
    for route in reading.routes:
        before = known.get(route.topic)
        if before is None or before[0] != route or round_time_ms - before[1] >= ROUTE_REPEAT_MS:
            events.append(_route_event(reading.cluster, route, round_time_ms))
            kept[route.topic] = (route, round_time_ms)
    if reading.topics is not None and reading.registered is not None:
        for topic, (route, _) in sorted(known.items()):
            if topic not in reading.topics and {name for name, _ in route.brokers} <= reading.registered:
                empty = TopicRoute(topic, (), (), order_topic=False)
                events.append(_route_event(reading.cluster, empty, round_time_ms))
                del kept[topic]
    return events, kept


def _route_event(cluster: str, route: TopicRoute, event_time_ms: int) -> Event:
    return ROUTES, {
        "cluster": cluster,
        "topic": route.topic,
        "queues": [asdict(queue) for queue in route.queues],
        "brokers": [{"broker_name": name, "broker_ids": list(ids)} for name, ids in route.brokers],
        "order_topic": route.order_topic,
        **({"has_queue_mapping": True} if route.has_queue_mapping else {}),
        "event_time_ms": event_time_ms,
    }


def latency_event(cluster: str, latency: Latency, round_time_ms: int) -> Event:
    """One probe. A failed one isolates the broker, as it would for a producer with sendLatencyFaultEnable."""
    return SEND_LATENCIES, {
        "cluster": cluster,
        **asdict(latency),
        "queue_id": 0,
        "isolation": latency.send_status is None,
        "event_time_ms": min(latency.event_time_ms, round_time_ms),
    }
