"""The newest messages of a topic, read ahead of the query and without a consumer group."""

import time
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import UnknownTopicOrPartitionError

from conf.settings import Kafka
from streaming.kafka_io.consumer import open_consumer, read_spans

AT_MOST = 50_000
"""Messages of a partition that one call reads; older ones are skipped."""

READ_SECONDS = 30.0


class Tail:
    """Reads all partitions of a topic: first the messages since a time, then those since the last call."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._kafka, self._topic = kafka, topic
        self._consumer: KafkaConsumer | None = None
        self._next: dict[TopicPartition, int] = {}

    def read(self, since_ms: int | None = None) -> list[Any]:
        """Return the new records, of a new partition those since `since_ms`, without it none.

        Raises KafkaError if Kafka does not answer, or lacks the topic.
        """
        consumer = self._consumer = self._consumer or open_consumer(self._kafka)
        spans = {TopicPartition(*place): span for place, span in read_spans(consumer, [self._topic]).items()}
        if not spans:
            raise UnknownTopicOrPartitionError(self._topic)
        consumer.assign(list(spans))
        first: dict[Any, Any] = {} if since_ms is None else consumer.offsets_for_times(dict.fromkeys(spans, since_ms))
        left: dict[TopicPartition, int] = {}
        for place, span in spans.items():
            found = first.get(place)
            since = self._next.get(place, found.offset if found else span.end)
            begin = min(max(span.beginning, span.end - AT_MOST, since), span.end)
            consumer.seek(place, begin)
            if begin < span.end:
                left[place] = span.end
        records: list[Any] = []
        deadline = time.monotonic() + READ_SECONDS
        while left and time.monotonic() < deadline:
            for place, polled in consumer.poll(timeout_ms=500).items():
                records += polled
                if place in left and consumer.position(place) >= left[place]:
                    del left[place]
        self._next |= {place: consumer.position(place) if place in left else span.end for place, span in spans.items()}
        return records

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
