"""The canary: a modelled twin that `run` injects every few minutes, under a cluster name of its own.

It goes the whole way that a real page goes: Kafka, the query, Delta, the relay. What it takes from its injection to its
delivery is the service's own figure, and its absence an alert (`canary_lost`). Nobody else is told of it.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import structlog
from kafka.errors import KafkaError

from conf.oncall import CANARY
from conf.settings import Settings
from schemas.events import CLOCKS, HEARTBEATS, ROUTES
from streaming.kafka_io.publisher import Publisher, PublishError
from streaming.oncall.notice import Notice
from streaming.oncall.receiver import Answer
from streaming.text.times import wall_ms
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.alerts.self_kinds import LIMITS

END_SECONDS = 30.0
"""So long after its injection the twin's group is deleted, and its alert with it."""

Event = tuple[str, dict[str, Any]]

log = structlog.get_logger()


def twin_events(now_ms: int) -> Iterator[Event]:
    """Two clients that carry one ClientId, each proven alive after the other appeared, and the tick that tells it."""
    yield end_event(now_ms - 10_000)
    queue = {"broker_name": CANARY, "read_queue_nums": 2, "write_queue_nums": 2, "perm": 6}
    broker = {"broker_name": CANARY, "broker_ids": [0]}
    common = {"cluster": CANARY_CLUSTER}
    yield ROUTES, common | {"topic": CANARY, "queues": [queue], "brokers": [broker], "event_time_ms": now_ms - 5_000}
    for number in range(4):
        yield HEARTBEATS, common | _heartbeat(f"{CANARY}-{number % 2}:1", now_ms, now_ms - 4_000 + 1_000 * number)
    yield CLOCKS, _clock(now_ms)


def end_event(now_ms: int) -> Event:
    """The group is deleted on purpose: its alert ends, and nothing of it is kept."""
    return CLOCKS, _clock(now_ms) | {"deleted_groups": [CANARY]}


def _heartbeat(client_addr: str, injected_ms: int, event_time_ms: int) -> dict[str, Any]:
    subscription = {"topic": CANARY, "sub_string": "*", "sub_version": 1, "expression_type": "TAG"}
    consumer = {
        "consumer_group": CANARY,
        "consume_type": "CONSUME_PASSIVELY",
        "message_model": "CLUSTERING",
        "consume_from_where": "CONSUME_FROM_LAST_OFFSET",
        "subscriptions": [subscription],
    }
    return {
        "broker_name": CANARY,
        "client_id": f"{CANARY}@{injected_ms}",
        "client_addr": client_addr,
        "language": "JAVA",
        "client_version": "4.8.0",
        "producer_groups": [],
        "consumers": [consumer],
        "event_time_ms": event_time_ms,
    }


def _clock(event_time_ms: int) -> dict[str, Any]:
    return {
        "cluster": CANARY_CLUSTER,
        "source": CANARY,
        "brokers_asked": [CANARY],
        "brokers_answered": [CANARY],
        "event_time_ms": event_time_ms,
    }


class CanaryThread:
    """Injects. `start` and `stop` it; a Kafka that is away only costs the injections meanwhile."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sing, name=CANARY, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=10)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _sing(self) -> None:
        interval = self._settings.canary.interval_seconds
        while not self._stop.is_set():
            self._publish(twin_events)
            if not self._stop.wait(min(END_SECONDS, interval / 2)):
                self._publish(lambda now_ms: iter([end_event(now_ms)]))
                self._stop.wait(max(0.0, interval - min(END_SECONDS, interval / 2)))

    def _publish(self, events: Callable[[int], Iterator[Event]]) -> None:
        try:
            with Publisher(self._settings.kafka) as publisher:
                for topic, event in events(wall_ms()):
                    publisher.publish(topic, event)
                publisher.flush()
        except (PublishError, KafkaError) as error:
            log.warning("canary not injected", reason=str(error))


class CanaryReceiver:
    """Where the canary's alert arrives. `delivered_at_ms` is when the newest did."""

    name = CANARY
    at_most = 100
    min_interval_seconds = 0.0
    is_leased = False

    def __init__(self) -> None:
        self.delivered_at_ms: int | None = None

    def send(self, notices: Sequence[Notice], now_ms: int) -> Answer:
        """The way from Kafka to here works, and took so long."""
        for notice in notices:
            if notice.status == "firing":
                self.delivered_at_ms = now_ms
                log.info("canary delivered", seconds=round((now_ms - notice.changed_at_ms) / 1000, 1))
        return Answer("DELIVERED", None, "here")

    def close(self) -> None:
        """Nothing is held."""


def lost_after_ms(settings: Settings) -> int:
    """A canary that was due so long ago is lost: some intervals, and what the way may take."""
    return round(LIMITS.canary_intervals * settings.canary.interval_seconds * 1000) + LIMITS.canary_way_ms
