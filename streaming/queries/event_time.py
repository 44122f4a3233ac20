"""When an event happened, by Kafka's clock: no later than it arrived, and moved on where its source lags behind."""

from typing import Any

import msgspec

from schemas.decode import DECODERS
from schemas.events import CLOCKS, HEARTBEATS, PULLS
from streaming.queries.chunk import Ahead
from udfs.brokers import skew
from udfs.brokers.log_order import Behind, LogOrder
from udfs.brokers.skew import WINDOW_MS, Lag

LEAST_OF_CLIENTS_MS = {skew.OF_CLIENT: skew.CLIENT_MS, skew.SENDS_OF: skew.TOLD_MS}

SOURCES = {HEARTBEATS: skew.HEARTBEATS, PULLS: skew.PULLS, CLOCKS: skew.CLOCK}


def source_of(topic: str, event: Any) -> tuple[str, str] | None:
    """(source, machine) whose clock gave the event its time; None where it orders the events of its topic only."""
    if topic == CLOCKS:
        return (skew.CLOCK, event.collector or event.source) if event.source != "forget" else None
    return (SOURCES[topic], event.broker_name) if topic in SOURCES else None


SLACK_MS = 10_000
"""A time no further ahead of Kafka's than this is left as it is: no two clocks agree to the millisecond."""


def not_after(time_ms: int, ingest_time_ms: int) -> int:
    """The time, or when it reached Kafka where it is ahead of that."""
    return ingest_time_ms if time_ms > ingest_time_ms + SLACK_MS else time_ms


def at_most(event: Any, ingest_time_ms: int) -> Any:
    """The event, not later than it reached Kafka."""
    return at(event, ingest_time_ms) if event.event_time_ms > ingest_time_ms + SLACK_MS else event


def at(event: Any, time_ms: int) -> Any:
    return msgspec.structs.replace(event, event_time_ms=time_ms)


def ahead_of(value: bytes | None, reasons: list[str], ingest_time_ms: int) -> Ahead | None:
    """Whose clock event was refused for being ahead of Kafka's time; None where it was for something else as well."""
    if value is None or [reason.partition(":")[0] for reason in reasons] != ["time_ahead"]:
        return None
    event = DECODERS[CLOCKS].decode(value)
    source = event.collector or event.source
    return Ahead(event.cluster, source, ingest_time_ms, event.event_time_ms - ingest_time_ms)


class Lags:
    """The least lag a source and window of the messages that are noted."""

    def __init__(self) -> None:
        self._least: dict[tuple[str, str, str, int], int] = {}
        self._most: dict[tuple[str, str, str, int], int] = {}  # of clock events alone
        self._orders: dict[str, LogOrder] = {}

    def note(self, topic: str, event: Any, ingest_time_ms: int) -> None:
        source = source_of(topic, event)
        if source is None:
            return
        lag = ingest_time_ms - event.event_time_ms
        self._note(event.cluster, source, ingest_time_ms // WINDOW_MS, lag)
        if topic == CLOCKS:
            key = (event.cluster, *source, ingest_time_ms // WINDOW_MS)
            self._most[key] = max(lag, self._most.get(key, lag))
        if topic == PULLS or (topic == HEARTBEATS and not event.leaving and not event.is_listed_only):
            client_id = event.client_id if topic == PULLS else None
            order = self._orders.get(event.cluster) or self._orders.setdefault(event.cluster, LogOrder())
            order.note(*source, client_id, event.event_time_ms, ingest_time_ms)
        if topic == PULLS and event.client_id:
            self._note(event.cluster, (skew.OF_CLIENT, event.client_id), ingest_time_ms // WINDOW_MS, lag)

    def note_send(self, cluster: str, broker_name: str, client_id: str, lag: int, ingest_time_ms: int) -> None:
        """Late by whoever sent it, or by whoever tells what the broker was sent."""
        for source in ((skew.SENDS, broker_name), (skew.SENDS_OF, client_id)):
            self._note(cluster, source, ingest_time_ms // WINDOW_MS, lag)

    def _note(self, cluster: str, source: tuple[str, str], window: int, lag: int) -> None:
        key = (cluster, *source, window)
        if lag < self._least.get(key, lag + 1):
            self._least[key] = lag

    def behind(self) -> list[Behind]:
        """Of sources in a log that was written at once."""
        return [one for cluster, order in sorted(self._orders.items()) for one in order.behind(cluster)]

    def all(self) -> list[Lag]:
        """Of clients only those all of whose events are far off: of the others there is nothing to remember."""
        return [
            Lag(*key, least_ms, self._most.get(key, 0))
            for key, least_ms in sorted(self._least.items())
            if abs(least_ms) >= LEAST_OF_CLIENTS_MS.get(key[1], 0)
        ]
