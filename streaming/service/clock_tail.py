"""The newest clock events as Kafka has them, ahead of the query: who has spoken lately, whatever their backlog."""

import time
from typing import Any, NamedTuple

from kafka import KafkaConsumer, TopicPartition

from conf.settings import Kafka
from schemas.decode import decode
from schemas.events import CLOCKS
from streaming.kafka_io.consumer import open_consumer, read_spans
from streaming.queries.shard_endings import CLUSTER, FORGET

DAY_MS = 86_400_000

AT_MOST = 50_000
"""Messages a partition that one call reads; what lies before them is left out."""

READ_SECONDS = 30.0


class ClockSeen(NamedTuple):
    """One clock event. `at_ms` is its Kafka record's timestamp, `brokers` those it asked."""

    cluster: str
    source: str
    event_time_ms: int
    at_ms: int
    brokers: list[str]


class ClockTail:
    """Reads `rocketmq.clock`: at first the last day of it, then what came since the call before."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._consumer: KafkaConsumer | None = None
        self._next: dict[tuple[str, int], int] = {}

    def read(self, now_ms: int) -> list[ClockSeen]:
        """The good clock events, in order a cluster. Raises KafkaError when Kafka does not answer."""
        consumer = self._consumer = self._consumer or open_consumer(self._kafka)
        spans = read_spans(consumer, [CLOCKS])
        if not spans:
            return []
        places = {place: TopicPartition(*place) for place in spans}
        consumer.assign(list(places.values()))
        day = consumer.offsets_for_times(dict.fromkeys(places.values(), now_ms - DAY_MS))
        left = {}
        for place, span in spans.items():
            found = day.get(places[place])
            since = self._next.get(place, found.offset if found else span.end)
            begin = min(max(span.beginning, span.end - AT_MOST, since), span.end)
            consumer.seek(places[place], begin)
            if begin < span.end:
                left[place] = span.end
            self._next[place] = span.end
        return self._read_until(consumer, left)

    def _read_until(self, consumer: KafkaConsumer, left: dict[tuple[str, int], int]) -> list[ClockSeen]:
        seen, deadline = [], time.monotonic() + READ_SECONDS
        while left and time.monotonic() < deadline:
            for place, records in consumer.poll(timeout_ms=500).items():
                for record in records:
                    event, reasons = decode(CLOCKS, record.value, record.timestamp)
                    if not reasons and not is_of_part(event):
                        seen.append(
                            ClockSeen(
                                event.cluster, event.source, event.event_time_ms, record.timestamp, event.brokers_asked
                            )
                        )
                end = left.get((place.topic, place.partition))
                if end is not None and consumer.position(place) >= end:
                    del left[place.topic, place.partition]
        return seen

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


def is_of_part(event: Any) -> bool:
    """Whether it tells that a part of a cluster is forgotten: its time goes on."""
    return event.source == FORGET and all(one.kind != CLUSTER for one in event.forgotten or ())
