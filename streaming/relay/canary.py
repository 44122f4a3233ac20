"""The canary: a simulated twin that `run` injects every few minutes, in a separate cluster; and `balancewatch canary`.

It takes the path of a real page: Kafka, the query, Delta, the relay. Its latency measures the service; its absence is
the alert `canary_lost`. Only an internal receiver gets it.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import quantiles
from typing import Annotated, Any, NamedTuple

import pyarrow.compute as pc
import structlog
import typer
from kafka.errors import KafkaError

from conf.location import Location
from conf.oncall import CANARY
from conf.settings import Settings
from schemas.events import CLOCKS, HEARTBEATS, ROUTES
from schemas.tables import ALERT_DELIVERIES
from streaming.kafka_io.publisher import Publisher, PublishError
from streaming.relay.notice import Notice
from streaming.relay.receivers.posting import Answer, Traits
from streaming.terminal.command import fail, load
from streaming.terminal.printing import print_rows
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import say
from streaming.text.times import iso, to_ms, wall_ms
from streaming.warehouse.readable_rows import read_table
from streaming.warehouse.warehouse_error import WarehouseError
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.alerts.self_kinds import LIMITS

END_SECONDS = 30.0
"""Time from the injection to the deletion of the twin's group, which resolves its alert."""

KIND = "duplicate_client_id"
"""The alert's kind."""

Event = tuple[str, dict[str, Any]]

log = structlog.get_logger()


def twin_events(now_ms: int) -> Iterator[Event]:
    """Yield two clients with one ClientId, each alive after the other appeared, and the clock event that shows it."""
    yield end_event(now_ms - 10_000)
    queue = {"broker_name": CANARY, "read_queue_nums": 2, "write_queue_nums": 2, "perm": 6}
    broker = {"broker_name": CANARY, "broker_ids": [0]}
    common = {"cluster": CANARY_CLUSTER}
    yield ROUTES, common | {"topic": CANARY, "queues": [queue], "brokers": [broker], "event_time_ms": now_ms - 5_000}
    subscription = {"topic": CANARY, "sub_string": "*", "sub_version": 1, "expression_type": "TAG"}
    consumer = {
        "consumer_group": CANARY,
        "consume_type": "CONSUME_PASSIVELY",
        "message_model": "CLUSTERING",
        "consume_from_where": "CONSUME_FROM_LAST_OFFSET",
        "subscriptions": [subscription],
    }
    for number in range(4):
        yield (
            HEARTBEATS,
            common
            | {
                "broker_name": CANARY,
                "client_id": f"{CANARY}@{now_ms}",
                "client_addr": f"{CANARY}-{number % 2}:1",
                "language": "JAVA",
                "client_version": "4.8.0",
                "producer_groups": [],
                "consumers": [consumer],
                "event_time_ms": now_ms - 4_000 + 1_000 * number,
            },
        )
    yield CLOCKS, _clock(now_ms)


def end_event(now_ms: int) -> Event:
    """Return the deletion of the group, which resolves its alert and drops its state."""
    return CLOCKS, _clock(now_ms) | {"deleted_groups": [CANARY]}


def _clock(event_time_ms: int) -> dict[str, Any]:
    return {
        "cluster": CANARY_CLUSTER,
        "source": CANARY,
        "brokers_asked": [CANARY],
        "brokers_answered": [CANARY],
        "event_time_ms": event_time_ms,
    }


class CanaryThread:
    """Injects canaries. `start` and `stop` it; without Kafka it skips injections."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._inject, name=CANARY, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=10)

    def _inject(self) -> None:
        interval = self._settings.canary.interval_seconds
        until_end = min(END_SECONDS, interval / 2)
        while not self._stop.is_set():
            self._publish(twin_events)
            if not self._stop.wait(until_end):
                self._publish(lambda now_ms: [end_event(now_ms)])
                self._stop.wait(max(0.0, interval - until_end))

    def _publish(self, events: Callable[[int], Iterable[Event]]) -> None:
        try:
            with Publisher(self._settings.kafka) as publisher:
                for topic, event in events(wall_ms()):
                    publisher.publish(topic, event)
                publisher.flush()
        except (PublishError, KafkaError) as error:
            log.warning("canary not injected", reason=str(error))


class CanaryReceiver:
    """The receiver of the canary's alert: logs the latency from Kafka to here."""

    name, traits = CANARY, Traits(at_most=100)

    def send(self, notices: Sequence[Notice], now_ms: int) -> Answer:
        for notice in notices:
            if notice.status == "firing":
                log.info("canary delivered", seconds=round((now_ms - notice.changed_at_ms) / 1000, 1))
        return Answer("DELIVERED", None, "here")

    def close(self) -> None:
        """Nothing is open."""


def lost_after_ms(settings: Settings) -> int:
    """Return the time without a canary after which it is lost, ms; 0 if none is injected."""
    interval_ms = round(1000 * settings.canary.interval_seconds)
    return LIMITS.canary_intervals * interval_ms + LIMITS.canary_way_ms if interval_ms else 0


class Arrival(NamedTuple):
    """One delivered canary. The alert's event time is that of its injection."""

    incident_id: str
    injected_at_ms: int
    delivered_at_ms: int

    @property
    def seconds(self) -> float:
        return round(max(0, self.delivered_at_ms - self.injected_at_ms) / 1000, 3)


def read_canaries(warehouse: Location, last: int) -> list[Arrival]:
    """Return the `last` delivered canaries, oldest first. Raises NotWrittenError without a delivery log."""
    is_canary = (pc.field("route") == CANARY) | (pc.field("kind") == KIND)
    is_arrival = (pc.field("outcome") == "DELIVERED") & (pc.field("status") == "firing")
    rows = read_table(warehouse, ALERT_DELIVERIES, (pc.field("receiver") == CANARY) & is_canary & is_arrival)
    return [Arrival(row["incident_id"], to_ms(row["changed_at"]), to_ms(row["delivered_at"])) for row in rows[-last:]]


def canary(
    last: Annotated[int, typer.Option(help="Newest canary alerts to show.", min=1, max=10_000, metavar="N")] = 20,
    format_: Annotated[str, typer.Option("--format", help="table, json or csv.", metavar="FORMAT")] = "table",
    warehouse: Warehouse = None,
) -> None:
    """Print how long canary alerts took from injection to delivery.

    A canary is a simulated twin that `run` injects. Exit code 1: no canary alert arrived for two intervals and a
    minute.

    Example: balancewatch canary

    Example: balancewatch canary --format json --last 288 | jq 'map(.seconds) | max'
    """
    if format_ not in ("table", "json", "csv"):
        fail(f"--format {format_!r}: choose table, json or csv", code=2)
    settings = load(paths={"warehouse": warehouse})
    if not settings.canary.interval_seconds:
        fail("canary.interval_seconds = 0: the canary is off; set the interval in seconds, such as 300", code=2)
    try:
        arrived = read_canaries(settings.paths.warehouse, last)
    except WarehouseError as error:
        fail(str(error))
    rows = [
        {
            "injected_at": iso(arrival.injected_at_ms),
            "delivered_at": iso(arrival.delivered_at_ms),
            "seconds": arrival.seconds,
            "incident_id": arrival.incident_id,
        }
        for arrival in arrived
    ]
    print_rows(rows, format_, "No canary alert has arrived yet.")
    if arrived and format_ == "table":
        say(_summary([arrival.seconds for arrival in arrived], settings.canary.slo_seconds))
    age_ms = wall_ms() - arrived[-1].delivered_at_ms if arrived else None
    if age_ms is None or age_ms > lost_after_ms(settings):
        newest = "none has arrived" if age_ms is None else f"the newest arrived {age_ms // 60_000} min ago"
        fail(f"canary lost: {newest}, but one is due every {settings.canary.interval_seconds:g} s; is `run` up?")


def _summary(seconds: list[float], slo_seconds: float) -> str:
    kept = sum(one <= slo_seconds for one in seconds) / len(seconds)
    cuts: list[Any] = quantiles(seconds, n=20, method="inclusive") if len(seconds) > 1 else seconds * 19
    return (
        f"injection to delivery: median {cuts[9]:.1f} s, 95 % within {cuts[18]:.1f} s, worst {max(seconds):.1f} s; "
        f"{kept:.1%} within canary.slo_seconds = {slo_seconds:g}"
    )
