"""Brokers that a person decided are gone for good (`balancewatch forget --broker`), heard from the clock topic."""

import time
from collections.abc import Collection
from typing import Any

import msgspec
import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, UnknownTopicOrPartitionError

from conf.settings import Kafka
from schemas.events import CLOCKS
from streaming.kafka_io.consumer import open_consumer

MOST_A_ROUND = 5_000
AGAIN_SECONDS = 60.0
POSITION_MS = 2_000

log = structlog.get_logger()


class Forgotten:
    """Reads what is published from now on. A Kafka that does not let us is asked again AGAIN_SECONDS later."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._consumer: KafkaConsumer | None = None
        self._not_before = 0.0

    def read_brokers(self, cluster: str, known: Collection[str]) -> list[str]:
        """Names of the cluster's `known` brokers that were forgotten since the last call."""
        try:
            if self._consumer is None:
                if time.monotonic() < self._not_before:
                    return []
                self._not_before = time.monotonic() + AGAIN_SECONDS
                self._consumer = self._open()
            polled = self._consumer.poll(timeout_ms=0, max_records=MOST_A_ROUND)
        except KafkaError as error:
            log.debug("forget decisions not read", error=type(error).__name__)
            return []
        return [
            name
            for records in polled.values()
            for record in records
            for name in find_brokers(record.value, cluster, known)
        ]

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()

    def _open(self) -> KafkaConsumer:
        consumer = open_consumer(self._kafka)
        try:
            partitions = consumer.partitions_for_topic(CLOCKS)
            if not partitions:
                raise UnknownTopicOrPartitionError(CLOCKS)
            consumer.assign([TopicPartition(CLOCKS, each) for each in partitions])
            consumer.seek_to_end()
            for place in consumer.assignment():
                consumer.position(place, timeout_ms=POSITION_MS)  # where that end is, is asked now
        except BaseException:
            consumer.close()
            raise
        return consumer


def find_brokers(value: bytes | None, cluster: str, known: Collection[str]) -> list[str]:
    """Those of the cluster's `known` brokers that a clock event says are forgotten, all of them with their cluster;
    none for any other event, or for rubbish.
    """
    try:
        event = msgspec.json.decode(value or b"{}")
    except (msgspec.DecodeError, RecursionError):
        return []
    if not isinstance(event, dict) or event.get("source") != "forget" or event.get("cluster") != cluster:
        return []
    listed: Any = event.get("forgotten")
    decided = [each for each in (listed if isinstance(listed, list) else []) if isinstance(each, dict)]
    if any(each.get("kind") == "cluster" for each in decided):
        return list(known)
    names = [each.get("name") for each in decided if each.get("kind") == "broker"]
    return [name for name in known if name in names]
