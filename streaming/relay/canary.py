"""The canary: a simulated twin that `run` injects every few minutes, in a separate cluster.

It takes the path of a real page: Kafka, the query, Delta, the relay. Its latency measures the service; its absence is
the alert `canary_lost`. Only an internal receiver gets it.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow.compute as pc
import structlog
from kafka.errors import KafkaError

from conf.location import Location
from conf.oncall import CANARY
from conf.settings import Settings
from schemas.events import CLOCKS, HEARTBEATS, ROUTES
from schemas.tables import ALERT_DELIVERIES
from streaming.kafka_io.publisher import Publisher, PublishError
from streaming.relay.notice import Notice
from streaming.relay.receivers.posting import Answer, Receiver, Traits
from streaming.text.times import wall_ms
from streaming.warehouse.readable_rows import Row, read_table
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.alerts.self_kinds import LIMITS

END_SECONDS = 30.0
"""Time from the injection to the deletion of the twin's group, which resolves its alert."""

Event = tuple[str, dict[str, Any]]

log = structlog.get_logger()


def twin_events(now_ms: int) -> Iterator[Event]:
    """Yield two clients with one ClientId, each alive after the other appeared, and the clock event that shows it."""
    yield end_event(now_ms - 10_000)
    common = {"cluster": CANARY_CLUSTER, "broker_name": CANARY}
    yield (
        ROUTES,
        {
            "cluster": CANARY_CLUSTER,
            "topic": CANARY,
            "queues": [{"broker_name": CANARY, "read_queue_nums": 2, "write_queue_nums": 2, "perm": 6}],
            "brokers": [{"broker_name": CANARY, "broker_ids": [0]}],
            "event_time_ms": now_ms - 5_000,
        },
    )
    consumer = {
        "consumer_group": CANARY,
        "consume_type": "CONSUME_PASSIVELY",
        "message_model": "CLUSTERING",
        "consume_from_where": "CONSUME_FROM_LAST_OFFSET",
        "subscriptions": [{"topic": CANARY, "sub_string": "*", "sub_version": 1, "expression_type": "TAG"}],
    }
    client = {"client_id": f"{CANARY}@{now_ms}", "language": "JAVA", "client_version": "4.8.0"}
    roles = {"producer_groups": [], "consumers": [consumer]}
    for number in range(4):
        at = {"client_addr": f"{CANARY}-{number % 2}:1", "event_time_ms": now_ms - 4_000 + 1_000 * number}
        yield HEARTBEATS, common | client | roles | at
    yield CLOCKS, _clock(now_ms)


def end_event(now_ms: int) -> Event:
    """Return the deletion of the group, which resolves its alert and drops its state."""
    return CLOCKS, _clock(now_ms) | {"deleted_groups": [CANARY]}


def _clock(event_time_ms: int) -> dict[str, Any]:
    brokers = {"brokers_asked": [CANARY], "brokers_answered": [CANARY]}
    return {"cluster": CANARY_CLUSTER, "source": CANARY, "event_time_ms": event_time_ms, **brokers}


class CanaryThread(threading.Thread):
    """Injects canaries between `start` and `stop`; without Kafka it skips injections."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(name=CANARY, daemon=True)
        self._settings, self._is_ending = settings, threading.Event()

    def stop(self) -> None:
        self._is_ending.set()
        self.join(timeout=10)

    def run(self) -> None:
        interval = self._settings.canary.interval_seconds
        until_end = min(END_SECONDS, interval / 2)
        while not self._is_ending.is_set():
            self._publish(twin_events)
            if not self._is_ending.wait(until_end):
                self._publish(lambda now_ms: [end_event(now_ms)])
                self._is_ending.wait(max(0.0, interval - until_end))

    def _publish(self, events: Callable[[int], Iterable[Event]]) -> None:
        try:
            with Publisher(self._settings.kafka) as publisher:
                for topic, event in events(wall_ms()):
                    publisher.publish(topic, event)
                publisher.flush()
        except (PublishError, KafkaError) as error:
            log.warning("canary not injected", reason=str(error))


class CanaryReceiver(Receiver):
    """The receiver of the canary's alert: logs the latency from Kafka to here."""

    name, traits = CANARY, Traits(at_most=100)

    def send(self, notices: Sequence[Notice], now_ms: int) -> Answer:
        for notice in notices:
            if notice.status == "firing":
                log.info("canary delivered", seconds=round((now_ms - notice.changed_at_ms) / 1000, 1))
        return Answer("DELIVERED", None, "here")


def lost_after_ms(settings: Settings) -> int:
    """Return the time without a canary after which it is lost, ms; 0 if none is injected."""
    interval_ms = round(1000 * settings.canary.interval_seconds)
    return LIMITS.canary_intervals * interval_ms + LIMITS.canary_way_ms if interval_ms else 0


def read_canaries(warehouse: Location, last: int) -> list[Row]:
    """Return the log's rows of the `last` delivered canaries, oldest first; `changed_at` is the injection.

    Raises NotWrittenError without a delivery log.
    """
    is_arrival = (pc.field("outcome") == "DELIVERED") & (pc.field("status") == "firing")
    return read_table(warehouse, ALERT_DELIVERIES, is_arrival, having={"route": CANARY})[-last:]
